#pragma once
// A progress bar on stderr. Draws nothing if stderr is no terminal.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ikebana/posix/terminal.hpp>
#include <ikebana/report.hpp>

namespace ikebana {

/// One line on stderr, redrawn at most ten times per second: a bar, the loss, items per second, the
/// learning rate, and the gradient norm and peak memory if a policy reports them. Drawing waits for
/// the device.
class Progress {
 public:
  /// The bar of `fit`. `loader` gives the length of an epoch if it has a size.
  template <class Loader>
  Progress(bool enabled, std::int64_t epochs, const Loader& loader, std::int64_t batches_per_step)
      : enabled_(enabled && detail::stderr_is_terminal()), epochs_(epochs) {
    if constexpr (requires { std::size(loader); })
      steps_ = (static_cast<std::int64_t>(std::size(loader)) - 1) / batches_per_step + 1;
  }
  /// A bar of `steps` steps, which counts `items`.
  Progress(bool enabled, std::int64_t steps, const char* items)
      : enabled_(enabled && detail::stderr_is_terminal()),
        epochs_(1),
        steps_(steps),
        items_(items) {}
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins after `steps` steps of an epoch.
  void begin_at(std::int64_t epoch, std::int64_t steps) { step_ = epoch * steps_ + steps; }
  /// Counts a step, and draws the line where a tenth of a second has passed. `epoch` is from 0.
  void draw(std::int64_t epoch, const Report& report) {
    ++step_;
    if (!enabled_) return;
    if (!report.value.parts.empty()) done_ += report.value.parts[0].count;
    auto now = Clock::now();
    bool too_soon = drawn_ && now - drawn_at_ < std::chrono::milliseconds(100);
    if (too_soon && step_ != steps_ * epochs_) return;
    double seconds = std::chrono::duration<double>(now - begin_).count();
    std::string line = text("  loss %.4f", report.loss()) +
                       text("  %.0f ", done_.value() / seconds) + items_ + "/s" +
                       text("  lr %.2e", report.learning_rate);
    if (auto norm = report.grad_norm()) line += text("  norm %.2f", *norm);
    if (report.peak_bytes)
      line += text("  %.0f MiB", static_cast<double>(*report.peak_bytes) / 1048576);
    line = (bar(epoch, columns() - static_cast<std::int64_t>(line.size())) + line)
               .substr(0, static_cast<std::size_t>(columns()));
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    std::fflush(stderr);
    drawn_ = true, drawn_at_ = now;
  }
  /// Clears the line and calls `f`, whose time does not count as the steps' time.
  template <class F>
  void pause(F&& f) {
    auto begin = Clock::now();
    clear();
    f();
    begin_ += Clock::now() - begin;
  }
  /// Clears the line, so that the caller can print.
  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static std::string text(const char* format, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, format, value);
    return buffer;
  }
  /// One less than the terminal has: a full line would wrap and could not be redrawn.
  static std::int64_t columns() {
    const int columns = detail::stderr_columns();
    return columns > 1 ? columns - 1 : 79;
  }
  /// The position in the epoch, with a bar that fits `width` columns.
  std::string bar(std::int64_t epoch, std::int64_t width) const {
    std::string position = epochs_ > 1 ? text("epoch %.0f", static_cast<double>(epoch + 1)) +
                                             text("/%.0f ", static_cast<double>(epochs_))
                                       : "";
    if (steps_ <= 0) return position + "step " + std::to_string(step_);
    std::int64_t step = (step_ - 1) % steps_ + 1;
    std::string count = std::to_string(step) + "/" + std::to_string(steps_);
    width -= static_cast<std::int64_t>(position.size() + count.size()) + 3;
    width = std::min<std::int64_t>(width, 30);
    if (width < 4) return position + count;
    std::string bar(static_cast<std::size_t>(width), '.');
    std::fill_n(bar.begin(), width * step / steps_, '#');
    return position + "[" + bar + "] " + count;
  }

  bool enabled_, drawn_ = false;
  std::int64_t epochs_, steps_ = 0, step_ = 0;
  Count done_;
  const char* items_ = "items";
  Clock::time_point begin_ = Clock::now(), drawn_at_ = begin_;
};

}  // namespace ikebana
