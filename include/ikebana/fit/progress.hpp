#pragma once
// A progress bar on a terminal, and nothing anywhere else.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ikebana/report.hpp>

namespace ikebana {

/// One line on stderr, drawn anew ten times a second at most: bar, loss, items a second, learning
/// rate, and the gradient norm and memory where a policy tells them. Reading them waits for the
/// device.
class Progress {
 public:
  /// `loader` is asked for its size where it has one.
  template <class Loader>
  Progress(bool wanted, std::int64_t epochs, const Loader& loader, std::int64_t batches_per_step)
      : on_(wanted && isatty(STDERR_FILENO)), epochs_(epochs) {
    if constexpr (requires { std::size(loader); })
      steps_ = (static_cast<std::int64_t>(std::size(loader)) - 1) / batches_per_step + 1;
  }
  Progress(bool wanted, std::int64_t steps, const char* items)
      : on_(wanted && isatty(STDERR_FILENO)), epochs_(1), steps_(steps), items_(items) {}
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins in the middle, after `steps` of an epoch.
  void begin_at(std::int64_t epoch, std::int64_t steps) { step_ = epoch * steps_ + steps; }
  void draw(std::int64_t epoch, const Report& report) {
    done_ += report.count();
    auto now = Clock::now();
    ++step_;
    bool soon = drawn_ && now - drawn_at_ < std::chrono::milliseconds(100);
    if (!on_ || (soon && step_ != steps_ * epochs_)) return;
    double seconds = std::chrono::duration<double>(now - begin_).count();
    std::string line = text("  loss %.4f", report.loss()) + text("  %.0f ", done_ / seconds) +
                       items_ + "/s" + text("  lr %.2e", report.learning_rate);
    if (auto norm = report.grad_norm()) line += text("  norm %.2f", *norm);
    if (report.peak_bytes)
      line += text("  %.0f MiB", static_cast<double>(*report.peak_bytes) / 1048576);
    line = (bar(epoch, columns() - static_cast<std::int64_t>(line.size())) + line)
               .substr(0, static_cast<std::size_t>(columns()));
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    std::fflush(stderr);
    drawn_ = true, drawn_at_ = now;
  }
  /// Makes room for other work, whose time is not the steps'.
  template <class F>
  void aside(F&& f) {
    auto begin = Clock::now();
    clear();
    f();
    begin_ += Clock::now() - begin;
  }
  /// Makes room for a line of somebody else's.
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
  /// A line as wide as the terminal would wrap, and could not be drawn over.
  static std::int64_t columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
  }
  /// Where the epoch is, with a bar as long as `room` allows.
  std::string bar(std::int64_t epoch, std::int64_t room) const {
    std::string where = epochs_ > 1 ? text("epoch %.0f", static_cast<double>(epoch + 1)) +
                                          text("/%.0f ", static_cast<double>(epochs_))
                                    : "";
    if (steps_ <= 0) return where + "step " + std::to_string(step_);
    std::int64_t at = (step_ - 1) % steps_ + 1;
    std::string count = std::to_string(at) + "/" + std::to_string(steps_);
    room -= static_cast<std::int64_t>(where.size() + count.size()) + 3;
    room = std::min<std::int64_t>(room, 30);
    if (room < 4) return where + count;
    std::string bar(static_cast<std::size_t>(room), '.');
    std::fill_n(bar.begin(), room * at / steps_, '#');
    return where + "[" + bar + "] " + count;
  }

  bool on_, drawn_ = false;
  std::int64_t epochs_, steps_ = 0, step_ = 0;
  double done_ = 0;
  const char* items_ = "items";
  Clock::time_point begin_ = Clock::now(), drawn_at_ = begin_;
};

}  // namespace ikebana
