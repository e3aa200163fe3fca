#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/rank_times.hpp>
#include <utility>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<RankTimes>>::reset() {
  if (values.warmup < 0 || values.keep < 1)
    throw BadValue("Observe<RankTimes>: warmup is " + std::to_string(values.warmup) +
                   " and keep is " + std::to_string(values.keep) +
                   ". Write how many steps are left out, 0 or more, and of how many the times are "
                   "kept, 1 or more.");
  recent_.reset(static_cast<std::size_t>(values.keep));
  left_out_ = 0, follows_ = false;
}

IKEBANA_INLINE void Mechanism<Observe<RankTimes>>::begin_wait(const RankGroup& group) {
  measures_ = std::exchange(follows_, false);
  if (!std::exchange(is_checked_, true) && group.size() > 1 && !group.waited())
    throw BadValue(
        "Observe<RankTimes>: the ranks of this trainer cannot say how long they wait for each "
        "other, since a device waits in place of the host, as with NCCL, or their group does not "
        "measure it. Leave the policy out, and look at gather and reduce in Observe<Phases>, or "
        "give a group of your own `waited`.");
}

IKEBANA_INLINE void Mechanism<Observe<RankTimes>>::end_wait(const RankGroup& group) {
  const auto now = Clock::now();
  const auto waited = group.waited().value_or(std::chrono::nanoseconds(0));
  const std::chrono::duration<double> seconds = now - std::exchange(last_end_, now);
  const std::chrono::duration<double> wait = waited - std::exchange(last_waited_, waited);
  follows_ = true;
  if (!measures_) return;
  if (left_out_ < values.warmup) ++left_out_;
  else recent_.add({seconds.count(), wait.count()});
}

IKEBANA_INLINE std::string Mechanism<Observe<RankTimes>>::describe() const {
  return "warmup=" + std::to_string(values.warmup) + ", keep=" + std::to_string(values.keep);
}

}  // namespace ikebana
