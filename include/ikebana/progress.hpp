#pragma once
// A progress bar on a terminal, and nothing anywhere else.
#include <unistd.h>

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
  Progress(bool wanted, std::int64_t epochs, const Loader& loader, const char* items = "items")
      : on_(wanted && isatty(STDERR_FILENO)), epochs_(epochs), items_(items) {
    if constexpr (requires { std::size(loader); })
      steps_ = static_cast<std::int64_t>(std::size(loader));
  }
  Progress(bool wanted, std::int64_t steps, const char* items)
      : on_(wanted && isatty(STDERR_FILENO)), epochs_(1), steps_(steps), items_(items) {}
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void draw(std::int64_t epoch, const Report& report) {
    done_ += report.count();
    auto now = Clock::now();
    ++step_;
    if (!on_ || (drawn_ && step_ != steps_ && now - drawn_at_ < std::chrono::milliseconds(100)))
      return;
    double seconds = std::chrono::duration<double>(now - begin_).count();
    std::string line =
        epochs_ > 1 ? "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(epochs_) + " "
                    : "";
    line += bar() + text("  loss %.4f", report.loss()) + text("  %.0f ", done_ / seconds) + items_ +
            "/s" + text("  lr %.2e", report.learning_rate);
    if (auto norm = report.grad_norm()) line += text("  norm %.2f", *norm);
    if (report.peak_bytes)
      line += text("  %.0f MiB", static_cast<double>(*report.peak_bytes) / 1048576);
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    std::fflush(stderr);
    drawn_ = true, drawn_at_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static std::string text(const char* format, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, format, value);
    return buffer;
  }
  std::string bar() const {
    if (steps_ <= 0) return "step " + std::to_string(step_);
    std::int64_t at = (step_ - 1) % steps_ + 1, filled = 20 * at / steps_;
    std::string bar = "[";
    for (int i = 0; i < 20; ++i) bar += i < filled ? '#' : '.';
    return bar + "] " + std::to_string(at) + "/" + std::to_string(steps_);
  }

  bool on_, drawn_ = false;
  std::int64_t epochs_, steps_ = 0, step_ = 0;
  double done_ = 0;
  const char* items_;
  Clock::time_point begin_ = Clock::now(), drawn_at_ = begin_;
};

}  // namespace ikebana
