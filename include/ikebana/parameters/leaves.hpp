#pragma once
// Which gradients a backward pass writes: those of one trainer's master weights, and no others.
#include <ikebana/hooks.hpp>
#include <typeinfo>

namespace ikebana {

/// The leaves to which one trainer's backward passes write gradients.
class Leaves {
 public:
  /// Once, before the first backward.
  void set_masters(std::vector<at::Tensor> masters);

  /// Writes gradients to those master weights that require one now and to no other tensor, also
  /// where other models took part in the loss. Costs a walk over the graph, some nanoseconds per
  /// node. Only where the walk met another leaf is autograd given a list of inputs, which makes it
  /// look up every node in it. Before that `other(leaf)` is called for each use of such leaves, and
  /// `other.end_walk()` at the end.
  template <class Other>
  void backward(const Roots& roots, const Other& other) {
    walk(roots, other);
    other.end_walk();
    if (!met_other_) return torch::autograd::backward(roots.sums, roots.seeds);
    std::vector<at::Tensor> leaves;
    for (const auto& t : masters_)
      if (t.requires_grad()) leaves.push_back(t);
    if (!leaves.empty()) torch::autograd::backward(roots.sums, roots.seeds, {}, false, leaves);
  }

  /// Runs all of a backward pass, and writes no gradient.
  void backward_of_dummy(const Roots& roots);

 private:
  using Node = torch::autograd::Node;
  using AccumulateGrad = torch::autograd::AccumulateGrad;

  template <class Other>
  void walk(const Roots& roots, const Other& other) {
    visited_.clear(), pending_.clear();
    met_other_ = false;
    for (const auto& sum : roots.sums) visit(torch::autograd::impl::gradient_edge(sum), other);
    while (!pending_.empty()) {
      const Node* node = pending_.back();
      pending_.pop_back();
      for (const auto& edge : node->next_edges()) visit(edge, other);
    }
  }
  template <class Other>
  void visit(const torch::autograd::Edge& edge, const Other& other) {
    const Node* node = edge.function.get();
    if (!node) return;
    if (node->next_edges().empty()) return is_master(*node) ? void() : visit_other(*node, other);
    bool once = edge.function.use_count() == 1;  // no other edge leads to it
    if (once || visited_.insert(node).second) pending_.push_back(node);
  }
  bool is_master(const Node& end) const;
  /// The graph ends in a leaf that is no master weight, or in none.
  template <class Other>
  void visit_other(const Node& end, const Other& other) {
    met_other_ = true;
    if (typeid(end) == typeid(AccumulateGrad))
      other(static_cast<const AccumulateGrad&>(end).variable);
  }

  std::vector<at::Tensor> masters_;
  ska::flat_hash_set<const c10::TensorImpl*> master_impls_;
  ska::flat_hash_set<const Node*> visited_;  // kept, as `pending_`, to reuse its memory
  std::vector<const Node*> pending_;
  bool met_other_ = false;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/leaves.ipp>
#endif
