#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/leaves.hpp>

namespace ikebana {

IKEBANA_INLINE void Leaves::set_masters(std::vector<at::Tensor> masters) {
  masters_ = std::move(masters);
  for (const auto& t : masters_) master_impls_.insert(t.unsafeGetTensorImpl());
}

IKEBANA_INLINE void Leaves::backward_of_dummy(const Roots& roots) {
  std::vector<at::Tensor> leaves;
  for (const auto& t : masters_)
    if (t.requires_grad()) leaves.push_back(t);
  if (leaves.empty()) return;
  torch::autograd::grad(roots.sums, leaves, roots.seeds, /*retain_graph=*/std::nullopt,
                        /*create_graph=*/false, /*allow_unused=*/true);
}

IKEBANA_INLINE bool Leaves::is_master(const Node& end) const {
  if (typeid(end) != typeid(AccumulateGrad)) return false;
  const auto& leaf = static_cast<const AccumulateGrad&>(end).variable;
  return leaf.requires_grad() && master_impls_.count(leaf.unsafeGetTensorImpl()) != 0;
}

}  // namespace ikebana
