#pragma once
// Logs a training to event files, which TensorBoard shows.
#include <filesystem>
#include <ikebana/fit/log_columns.hpp>
#include <ikebana/fit/logger.hpp>
#include <ikebana/loggers/event_file.hpp>

namespace ikebana {

/// Writes scalars, histograms and texts for TensorBoard: `fit(loader, {.loggers =
/// {TensorBoardLogger("runs/a")}})`, or `log(report)` in your own loop, and `tensorboard --logdir
/// runs`. A step has a scalar for each column of `columns_of` under its name (`loss`, `lr`), a
/// validation by steps `val_loss` and `val_<metric>`, an epoch `epoch/loss`, `epoch/val_loss` and
/// so on at its last step. Scalars are FP32, as in torch.utils.tensorboard, so counts above
/// 2^24 are rounded. Each event is given to the system at once. A resumed `fit` begins another file
/// in the folder, whose first event hides the points of steps that are made again; an epoch that is
/// ended again at the step of the saved state has its point twice. A new training hides all points
/// of the folder's earlier files, which stay. Copies of a logger write to the same file. Reading a
/// report waits for the device. Throws FileFailed if it cannot write, or if another logger writes
/// to the folder.
class TensorBoardLogger {
 public:
  /// Takes the folder, one per run, and makes it. Throws FileFailed if that fails. The event file
  /// is made by the first event, or in `begin`.
  explicit TensorBoardLogger(std::filesystem::path folder);

  /// Begins an event file. `fit` calls it; call it in your own loop after `trainer.load`.
  void begin(const LogStart& start);
  /// Writes the scalars of a step.
  void log(const Report& report) const;
  /// Writes the scalars of a validation by steps.
  void log(const Validation& validation) const;
  /// Writes the scalars of an epoch, at its last step. Throws BadValue if `Epoch::last_step` is not
  /// set.
  void log(const Epoch& epoch) const;
  /// Does as `log`.
  template <class Event>
  void operator()(const Event& event) const {
    log(event);
  }

  /// Writes one scalar, which may be NaN or infinite.
  void add_scalar(const std::string& tag, double value, std::int64_t step) const;
  /// Writes a histogram of a tensor's elements: how many lie in each of the buckets whose limits
  /// are 0 and plus and minus 1e-12 * 1.1^i, up to 1e20. Values beyond have no bucket. Costs a copy
  /// of the tensor in FP64 on the host, to which it waits. Throws BadValue for a tensor without
  /// elements, with a value that is not finite, or without one in a bucket. Source:
  /// torch.utils.tensorboard, `bins="tensorflow"`.
  void add_histogram(const std::string& tag, const at::Tensor& tensor, std::int64_t step) const;
  /// Writes a text, which TensorBoard shows as Markdown, under `<tag>/text_summary`.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step) const;

 private:
  struct Events {
    std::filesystem::path folder;
    std::optional<detail::EventFile> file;
  };
  detail::EventFile& file() const;

  std::shared_ptr<Events> events_;
};

namespace detail {

/// Counts the elements of a tensor in TensorBoard's buckets.
Histogram histogram_of(const at::Tensor& tensor, const std::string& tag);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/loggers/impl/tensorboard_logger.ipp>
#endif
