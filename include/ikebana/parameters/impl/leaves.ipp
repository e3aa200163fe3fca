#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/leaves.hpp>

namespace ikebana {

IKEBANA_INLINE void Leaves::set_masters(std::vector<at::Tensor> masters) {
  masters_ = std::move(masters);
  for (const auto& t : masters_) master_impls_.insert(t.unsafeGetTensorImpl());
}

IKEBANA_INLINE void Leaves::backward_of_dummy(const Roots& roots) {
  const std::vector<at::Tensor> leaves = trained_masters();
  if (leaves.empty()) return;
  torch::autograd::grad(roots.sums, leaves, roots.seeds, /*retain_graph=*/std::nullopt,
                        /*create_graph=*/false, /*allow_unused=*/true);
}

IKEBANA_INLINE bool Leaves::is_master(const Node& end) const {
  if (typeid(end) != typeid(AccumulateGrad)) return false;
  const auto& leaf = static_cast<const AccumulateGrad&>(end).variable;
  return leaf.requires_grad() && master_impls_.count(leaf.unsafeGetTensorImpl()) != 0;
}

IKEBANA_INLINE void Leaves::walk(const Roots& roots, AtOther other) {
  visited_.clear(), pending_.clear();
  met_other_ = false;
  for (const auto& sum : roots.sums) visit(torch::autograd::impl::gradient_edge(sum), other);
  while (!pending_.empty()) {
    const Node* node = pending_.back();
    pending_.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge, other);
  }
}

IKEBANA_INLINE void Leaves::visit(const torch::autograd::Edge& edge, AtOther other) {
  const Node* node = edge.function.get();
  if (!node) return;
  if (node->next_edges().empty()) return is_master(*node) ? void() : visit_other(*node, other);
  bool once = edge.function.use_count() == 1;  // no other edge leads to it
  if (once || visited_.insert(node).second) pending_.push_back(node);
}

IKEBANA_INLINE void Leaves::visit_other(const Node& end, AtOther other) {
  met_other_ = true;
  if (typeid(end) == typeid(AccumulateGrad))
    other(static_cast<const AccumulateGrad&>(end).variable);
}

IKEBANA_INLINE void Leaves::backward_after_walk(const Roots& roots) const {
  if (!met_other_) return torch::autograd::backward(roots.sums, roots.seeds);
  const std::vector<at::Tensor> leaves = trained_masters();
  if (!leaves.empty()) torch::autograd::backward(roots.sums, roots.seeds, {}, false, leaves);
}

IKEBANA_INLINE std::vector<at::Tensor> Leaves::trained_masters() const {
  std::vector<at::Tensor> all;
  for (const auto& t : masters_)
    if (t.requires_grad()) all.push_back(t);
  return all;
}

}  // namespace ikebana
