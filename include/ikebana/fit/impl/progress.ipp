#pragma once
#include <algorithm>
#include <cstdio>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/progress.hpp>

namespace ikebana {

IKEBANA_INLINE Progress::Progress(bool enabled, std::int64_t epochs,
                                  std::optional<std::int64_t> batches,
                                  std::int64_t batches_per_step)
    : enabled_(enabled && detail::stderr_is_terminal()), epochs_(epochs) {
  if (batches) steps_ = (*batches - 1) / batches_per_step + 1;
}

IKEBANA_INLINE Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

IKEBANA_INLINE void Progress::draw(std::int64_t epoch, const Report& report) {
  ++step_;
  if (!enabled_) return;
  if (!report.value.parts.empty()) done_ += report.value.parts[0].count;
  auto now = Clock::now();
  bool too_soon = drawn_ && now - drawn_at_ < std::chrono::milliseconds(100);
  if (too_soon && step_ != steps_ * epochs_) return;
  double seconds = std::chrono::duration<double>(now - begin_).count();
  std::string line = text("  loss %.4f", report.loss()) + text("  %.0f ", done_.value() / seconds) +
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

IKEBANA_INLINE void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

IKEBANA_INLINE std::string Progress::text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

IKEBANA_INLINE std::int64_t Progress::columns() {
  const int columns = detail::stderr_columns();
  return columns > 1 ? columns - 1 : 79;
}

IKEBANA_INLINE std::string Progress::bar(std::int64_t epoch, std::int64_t width) const {
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

}  // namespace ikebana
