#pragma once
// Whose gradients a backward pass writes: those of one trainer's masters, and nobody else's.
#include <ikebana/parameters/gradients.hpp>

namespace ikebana {

/// The leaves that a trainer's backward passes accumulate into.
class Leaves {
 public:
  /// Gradients of those of `masters` that require one now and of no other tensor, whoever else had
  /// a part in the loss. Costs a walk over the graph, some ten nanoseconds a node. Autograd is told
  /// the leaves where the walk met a foreign one only: it then looks up each node several times.
  void backward(const Roots& roots, const std::vector<at::Tensor>& masters) {
    if (!are_those_of(masters)) take(masters);
    if (are_all_of(roots)) torch::autograd::backward(roots.sums, roots.seeds);
    else if (!leaves_.empty())
      torch::autograd::backward(roots.sums, roots.seeds, {}, false, leaves_);
  }

 private:
  using Node = torch::autograd::Node;

  /// A user may freeze one parameter and thaw another between steps.
  bool are_those_of(const std::vector<at::Tensor>& masters) const {
    std::size_t n = 0;
    for (const auto& t : masters)
      if (t.requires_grad() && (n == leaves_.size() || !leaves_[n++].is_same(t))) return false;
    return n == leaves_.size();
  }
  void take(const std::vector<at::Tensor>& masters) {
    leaves_.clear(), known_.clear();
    for (const auto& t : masters)
      if (t.requires_grad()) leaves_.push_back(t), known_.insert(t.unsafeGetTensorImpl());
  }

  /// True where a backward pass from the roots reaches no leaf but these.
  bool are_all_of(const Roots& roots) {
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
  /// False at a foreign leaf.
  bool go(const torch::autograd::Edge& edge) {
    const Node* node = edge.function.get();
    if (!node || !met_.insert(node).second) return true;
    if (!node->next_edges().empty()) {
      ahead_.push_back(node);
      return true;
    }
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    return !leaf || known_.count(leaf->variable.unsafeGetTensorImpl()) != 0;
  }

  std::vector<at::Tensor> leaves_;
  ska::flat_hash_set<const c10::TensorImpl*> known_;
  ska::flat_hash_set<const Node*> met_;  // kept, as `ahead_`, for their memory
  std::vector<const Node*> ahead_;
};

}  // namespace ikebana
