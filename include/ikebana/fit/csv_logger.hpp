#pragma once
// Logs a training to a CSV file.
#include <fstream>
#include <ikebana/grammar/sentence.hpp>
#include <ikebana/report.hpp>

namespace ikebana {

/// Writes one line of comma-separated values per step or epoch:
/// `fit(loader, {.on_step = CSVLogger("steps.csv")})`, or `log(report)` in your own loop. The first
/// line names the columns; every row must have the same ones. Numbers read back bit for bit. An
/// existing file is replaced. Each line is flushed. Copies of a logger write to the same file.
/// Reading a report waits for the device. Throws Error if it cannot write.
class CSVLogger {
 public:
  /// A line: each column with its name.
  using Row = std::vector<std::pair<std::string, double>>;

  /// Opens the file, which is replaced. Throws Error if it cannot be written, and FileFailed if it
  /// is not a regular file, such as a device.
  explicit CSVLogger(std::string path);

  /// Writes the columns step, loss, each named term, and lr; grad_norm and peak_bytes if a policy
  /// reports them; under Accumulate<Fit<>> microbatches and undone; then skipped (0 or 1), and
  /// seconds.
  void operator()(const Report& report) const;
  /// Writes the columns epoch, steps, loss, and seconds; with validation also val_loss and
  /// val_<metric>.
  void operator()(const Epoch& epoch) const;
  /// Writes any columns, which are pairs of name and value.
  void operator()(const Row& row) const;

 private:
  struct File {
    std::string path, columns;
    std::ofstream out;
  };

  void check_written() const;
  /// Returns the shortest text that reads back as the same value.
  static std::string text(double value);
  static std::string quoted(const std::string& name);

  std::shared_ptr<File> file_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/csv_logger.ipp>
#endif
