#pragma once
#include <algorithm>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/rank_calls.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RankCalls::RankCalls(const torch::nn::Module& model, RankGroup& group)
    : group_(&group) {
  for (const auto& item : each_once(model.named_modules("", /*include_self=*/true)))
    if (const auto* one = dynamic_cast<const CallsAllRanks*>(item.value().get()))
      modules_.push_back({one, item.value().get(), item.key()});
}

IKEBANA_INLINE std::int64_t RankCalls::count() const {
  return std::count_if(modules_.begin(), modules_.end(),
                       [](const auto& one) { return one.module->is_training(); });
}

IKEBANA_INLINE const std::string& RankCalls::name_of(const CallsAllRanks& module,
                                                     const char* type) const {
  for (const auto& one : modules_)
    if (one.calls == &module) return one.name;
  throw BadModel(std::string(type) +
                 ": it computes with all ranks, and is no module of the model of this trainer. "
                 "Register it there by register_module before the trainer is made, or call "
                 "eval().");
}

IKEBANA_INLINE void RankCalls::sum(const std::string& call, std::vector<at::Tensor>& values) {
  if (group_ == nullptr)
    throw BadModel("ranks: " + call +
                   " ran after its trainer was destroyed, and needs the other ranks. Keep the "
                   "trainer at least as long as the graph.");
  group_->sum_in(call, values);
  order_ = fnv1a(order_, call);
}

IKEBANA_INLINE void RankCalls::compare(const std::string& call) {
  if (count() == 0 || size() == 1) return;
  const auto all = exchange_in(*group_, call, std::to_string(order_));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0])
      throw BadModel("step: rank " + std::to_string(r) +
                     " ran the layers that compute with all ranks, as SyncBatchNorm, in another "
                     "order than rank 0. Run the same ones in the same order on every rank.");
}

IKEBANA_INLINE const RankScope*& RankScope::here() {
  static thread_local const RankScope* scope = nullptr;
  return scope;
}

}  // namespace ikebana::detail
