#pragma once
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void DeferredCheck::check(bool alone) {
  recorded_.clear(), ++checks_;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    const bool is_of_last_step = oldest.after_check + 1 == checks_;
    if (is_of_last_step && !(alone && oldest.flag.has_arrived())) return;
    Pending arrived = std::move(oldest);
    pending_.pop_front();
    if (arrived.flag.wait()) arrived.raise();
    else if (spare_.size() < most_spare) spare_.push_back(std::move(arrived.flag));
  }
}

IKEBANA_INLINE void DeferredCheck::undo() noexcept {
  while (!pending_.empty() && pending_.back().after_check == checks_) pending_.pop_back();
}

IKEBANA_INLINE std::optional<bool> DeferredCheck::known(const at::Tensor& flag) {
  if (without_values()) return false;
  if (!readable(flag)) return {};
  return number_on_host(flag) != 0;
}

IKEBANA_INLINE void DeferredCheck::add(const at::Tensor& flag, Raise raise) {
  if (recording()) return void(recorded_.push_back({flag, std::move(raise)}));
  pending_.push_back({copied(flag), std::move(raise), checks_});
}

IKEBANA_INLINE FlagCopy DeferredCheck::copied(const at::Tensor& flag) {
  if (spare_.empty() || !spare_.back().fits(flag)) return FlagCopy(flag);
  FlagCopy copy = std::move(spare_.back());
  spare_.pop_back();
  copy.ask(flag);
  return copy;
}

}  // namespace ikebana::detail
