#pragma once
// Defines the progress of a training on stderr: a bar on a terminal, else a line now and then.
#include <chrono>
#include <ikebana/posix/terminal.hpp>
#include <ikebana/report.hpp>
#include <limits>

namespace ikebana {

/// One line on stderr, redrawn at most ten times per second: a bar, the loss, items per second, the
/// learning rate, the gradient norm and peak memory if a policy reports them, and the time left. If
/// stderr is no terminal, such as a log of a batch system, plain lines, the first after ten seconds
/// and at most one each ten seconds. Drawing waits for the device.
class Progress {
 public:
  /// Makes the bar of `fit`. `loader` gives the length of an epoch if it has a size.
  template <class Loader>
  Progress(bool enabled, std::int64_t epochs, const Loader& loader, std::int64_t batches_per_step)
      : Progress(enabled, epochs, batches_of(loader), batches_per_step) {}
  /// Makes a bar of `batches` batches per epoch.
  Progress(bool enabled, std::int64_t epochs, std::optional<std::int64_t> batches,
           std::int64_t batches_per_step);
  /// Makes a bar of `steps` steps, which counts `items`.
  Progress(bool enabled, std::int64_t steps, const char* items)
      : enabled_(enabled), epochs_(1), steps_(steps), items_(items) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the position to `steps` steps after the beginning of an epoch.
  void begin_at(std::int64_t epoch, std::int64_t steps) {
    step_ = begun_at_ = epoch * steps_ + steps;
  }
  /// Ends the time left after `steps` steps, if the epochs have not ended before.
  void end_at(std::int64_t steps) { max_steps_ = steps; }
  /// Sets the time between lines if stderr is no terminal.
  void plain_every(std::chrono::milliseconds time) { plain_every_ = time; }
  /// Counts a step, and draws the line if a tenth of a second has passed. `epoch` counts from 0.
  void draw(std::int64_t epoch, const Report& report);
  /// Clears the line and calls `f`, whose time does not count as the steps' time.
  template <class F>
  void pause(F&& f) {
    auto begin = Clock::now();
    clear();
    f();
    begin_ += Clock::now() - begin;
  }
  /// Clears the line, so that the caller can print.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  template <class Loader>
  static std::optional<std::int64_t> batches_of(const Loader& loader) {
    if constexpr (requires { std::size(loader); })
      return static_cast<std::int64_t>(std::size(loader));
    else return std::nullopt;
  }
  static std::string text(const char* format, double value);
  /// Returns one column less than the terminal has, because a full line would wrap and could not be
  /// redrawn.
  static std::int64_t columns();
  /// Writes the position in the epoch, with a bar that fits `width` columns.
  std::string bar(std::int64_t epoch, std::int64_t width) const;
  bool counts_epochs() const {
    return epochs_ > 1 && epochs_ < std::numeric_limits<std::int64_t>::max();
  }
  /// Writes the epoch, if there are several.
  std::string position(std::int64_t epoch) const;
  /// Writes the place in the training, without a bar.
  std::string place(std::int64_t epoch) const;
  /// Adds up the items of the steps. Without a terminal, does not add counts on a device, which
  /// would cost an operator in each step.
  void count_items(const Report& report);
  /// Writes how many items per second, or steps if not all items were counted.
  std::string speed(double seconds) const;
  /// Returns whether enough time has passed since the last line.
  bool is_due(Clock::time_point now) const;
  /// Writes the loss and the other values.
  std::string values(const Report& report, double seconds) const;
  /// Returns the number of steps at the end, or 0 if it is not known.
  std::int64_t last_step() const;
  /// Writes the time until the end, if the end is known.
  std::string time_left(double seconds) const;

  bool enabled_, on_terminal_ = detail::stderr_is_terminal(), drawn_ = false;
  std::int64_t epochs_, steps_ = 0, step_ = 0, begun_at_ = 0;
  std::int64_t max_steps_ = std::numeric_limits<std::int64_t>::max();
  std::chrono::milliseconds plain_every_ = std::chrono::seconds(10);
  double items_on_host_ = 0;
  Count items_on_device_;
  bool has_all_items_ = true;
  const char* items_ = "items";
  Clock::time_point begin_ = Clock::now(), drawn_at_ = begin_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/progress.ipp>
#endif
