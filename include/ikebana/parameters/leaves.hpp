#pragma once
// Whose gradients a backward pass writes: those of one trainer's masters, and nobody else's.
#include <ikebana/parameters/gradients.hpp>
#include <typeinfo>

namespace ikebana {

/// The leaves that one trainer's backward passes write gradients to.
class Leaves {
 public:
  /// Once, before the first backward.
  void own(std::vector<at::Tensor> masters) {
    masters_ = std::move(masters);
    for (const auto& t : masters_) ours_.insert(t.unsafeGetTensorImpl());
  }

  /// Writes gradients to those masters that require one now and to no other tensor, whoever else
  /// had a part in the loss. Costs a walk over the graph, some nanoseconds a node. Only where that
  /// met a foreign leaf is autograd told the leaves: it then looks up each node again and again.
  void backward(const Roots& roots) {
    if (reaches_ours_only(roots)) return torch::autograd::backward(roots.sums, roots.seeds);
    std::vector<at::Tensor> leaves;
    for (const auto& t : masters_)
      if (t.requires_grad()) leaves.push_back(t);
    if (!leaves.empty()) torch::autograd::backward(roots.sums, roots.seeds, {}, false, leaves);
  }

 private:
  using Node = torch::autograd::Node;
  using AccumulateGrad = torch::autograd::AccumulateGrad;

  bool reaches_ours_only(const Roots& roots) {
    met_.clear(), ahead_.clear();
    for (const auto& sum : roots.sums)
      if (!go(torch::autograd::impl::gradient_edge(sum))) return false;
    while (!ahead_.empty()) {
      const Node* node = ahead_.back();
      ahead_.pop_back();
      for (const auto& edge : node->next_edges())
        if (!go(edge)) return false;
    }
    return true;
  }
  /// False where the graph ends in what is not ours.
  bool go(const torch::autograd::Edge& edge) {
    const Node* node = edge.function.get();
    if (!node) return true;
    if (node->next_edges().empty()) return is_ours(*node);
    bool once = edge.function.use_count() == 1;  // no other edge leads to it
    if (once || met_.insert(node).second) ahead_.push_back(node);
    return true;
  }
  bool is_ours(const Node& end) const {
    if (typeid(end) != typeid(AccumulateGrad)) return false;
    const auto& leaf = static_cast<const AccumulateGrad&>(end).variable;
    return leaf.requires_grad() && ours_.count(leaf.unsafeGetTensorImpl()) != 0;
  }

  std::vector<at::Tensor> masters_;
  ska::flat_hash_set<const c10::TensorImpl*> ours_;
  ska::flat_hash_set<const Node*> met_;  // kept, as `ahead_`, for its memory
  std::vector<const Node*> ahead_;
};

}  // namespace ikebana
