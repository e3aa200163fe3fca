#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/progress.hpp>

namespace ikebana {

IKEBANA_INLINE Progress::Progress(bool enabled, std::int64_t epochs,
                                  std::optional<std::int64_t> batches,
                                  std::int64_t batches_per_step)
    : enabled_(enabled), epochs_(epochs) {
  if (batches) steps_ = (*batches - 1) / batches_per_step + 1;
}

IKEBANA_INLINE Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

IKEBANA_INLINE void Progress::draw(std::int64_t epoch, const Report& report) {
  ++step_;
  if (!enabled_) return;
  count_items(report);
  const auto now = Clock::now();
  if (!is_due(now)) return;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const std::string line = values(report, seconds);
  if (on_terminal_) {
    const std::string all = bar(epoch, columns() - static_cast<std::int64_t>(line.size())) + line;
    std::fprintf(stderr, "\r%s\033[K", all.substr(0, static_cast<std::size_t>(columns())).c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s%s\n", place(epoch).c_str(), line.c_str());
  }
  drawn_at_ = now;
}

IKEBANA_INLINE void Progress::count_items(const Report& report) {
  if (report.value.parts.empty()) return;
  const Count& count = report.value.parts[0].count;
  if (count.readable()) items_on_host_ += count.value();
  else if (on_terminal_) items_on_device_ += count;
  else has_all_items_ = false;
}

IKEBANA_INLINE std::string Progress::speed(double seconds) const {
  if (!has_all_items_)
    return text("  %.2f steps/s", static_cast<double>(step_ - begun_at_) / seconds);
  return text("  %.0f ", (items_on_host_ + items_on_device_.value()) / seconds) + items_ + "/s";
}

IKEBANA_INLINE bool Progress::is_due(Clock::time_point now) const {
  if (!on_terminal_) return now - drawn_at_ >= plain_every_;
  return !drawn_ || now - drawn_at_ >= std::chrono::milliseconds(100) || step_ == last_step();
}

IKEBANA_INLINE std::string Progress::values(const Report& report, double seconds) const {
  std::string line =
      text("  loss %.4f", report.loss()) + speed(seconds) + text("  lr %.2e", report.learning_rate);
  if (auto norm = report.grad_norm()) line += text("  norm %.2f", *norm);
  if (report.throughput && std::isfinite(report.throughput->share_of_bound()))
    line += text("  %.0f %% of the bound", report.throughput->share_of_bound() * 100);
  if (report.peak_bytes)
    line += text("  %.0f MiB", static_cast<double>(*report.peak_bytes) / 1048576);
  return line + time_left(seconds);
}

IKEBANA_INLINE std::int64_t Progress::last_step() const {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const bool is_known = steps_ > 0 && epochs_ <= most / steps_;
  const std::int64_t end = std::min(max_steps_, is_known ? steps_ * epochs_ : most);
  return end == most ? 0 : end;
}

IKEBANA_INLINE std::string Progress::time_left(double seconds) const {
  if (last_step() <= step_) return "";
  const double left =
      seconds / static_cast<double>(step_ - begun_at_) * static_cast<double>(last_step() - step_);
  if (left < 99.5) return text("  %.0f s left", left);
  return left < 5970 ? text("  %.0f min left", left / 60) : text("  %.1f h left", left / 3600);
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

IKEBANA_INLINE std::string Progress::position(std::int64_t epoch) const {
  if (!counts_epochs()) return "";
  return "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(epochs_) + " ";
}

IKEBANA_INLINE std::string Progress::place(std::int64_t epoch) const {
  const std::string end = last_step() > 0 ? "/" + std::to_string(last_step()) : "";
  return position(epoch) + "step " + std::to_string(step_) + end;
}

IKEBANA_INLINE std::string Progress::bar(std::int64_t epoch, std::int64_t width) const {
  const std::string position = this->position(epoch);
  // By steps alone, the bar is that of the training; else that of the epoch.
  const std::int64_t of = counts_epochs() || last_step() == 0 ? steps_ : last_step();
  if (of <= 0) return position + "step " + std::to_string(step_);
  const std::int64_t step = (step_ - 1) % of + 1;
  const std::string count = std::to_string(step) + "/" + std::to_string(of);
  width -= static_cast<std::int64_t>(position.size() + count.size()) + 3;
  width = std::min<std::int64_t>(width, 30);
  if (width < 4) return position + count;
  std::string bar(static_cast<std::size_t>(width), '.');
  std::fill_n(bar.begin(), width * step / of, '#');
  return position + "[" + bar + "] " + count;
}

}  // namespace ikebana
