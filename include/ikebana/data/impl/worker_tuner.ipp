#pragma once
#include <ikebana/data/worker_tuner.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE bool WorkerTuner::take(Clock::time_point now) {
  if (times_.taken++ == 0) first_ = window_begin_ = now;
  times_.looping = std::chrono::duration<double>(now - first_).count();
  if (is_settled_ || (times_.taken - 1) % window != 0) return false;
  const double seconds = std::chrono::duration<double>(now - window_begin_).count();
  const double waiting = std::exchange(window_waiting_, 0);
  window_begin_ = now;
  if (times_.taken == 1 || seconds <= 0) return false;  // before it workers started
  constexpr double least_share = 0.02, least_gain = 1.05;
  const double rate = static_cast<double>(window) / seconds;
  const double before = std::exchange(rate_before_, 0);
  if (before > 0 && rate < least_gain * before) {
    is_settled_ = true;
    --workers_;
    return true;
  }
  if (waiting < least_share * seconds || workers_ == most_) return false;
  rate_before_ = rate;
  ++workers_;
  return true;
}

}  // namespace ikebana::detail
