#pragma once
// Defines a progress bar on stderr. It draws nothing if stderr is not a terminal.
#include <chrono>
#include <ikebana/posix/terminal.hpp>
#include <ikebana/report.hpp>

namespace ikebana {

/// One line on stderr, redrawn at most ten times per second: a bar, the loss, items per second, the
/// learning rate, and the gradient norm and peak memory if a policy reports them. Drawing waits for
/// the device.
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
      : enabled_(enabled && detail::stderr_is_terminal()),
        epochs_(1),
        steps_(steps),
        items_(items) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the position to `steps` steps after the beginning of an epoch.
  void begin_at(std::int64_t epoch, std::int64_t steps) { step_ = epoch * steps_ + steps; }
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

  bool enabled_, drawn_ = false;
  std::int64_t epochs_, steps_ = 0, step_ = 0;
  Count done_;
  const char* items_ = "items";
  Clock::time_point begin_ = Clock::now(), drawn_at_ = begin_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/progress.ipp>
#endif
