#pragma once
// Restricts a backward pass to the gradients of one trainer's master weights.
#include <ikebana/hooks.hpp>
#include <typeinfo>

namespace ikebana {

/// The leaves to which one trainer's backward passes write gradients.
class Leaves {
 public:
  /// Is called once, before the first backward.
  void set_masters(std::vector<at::Tensor> masters);

  /// Writes gradients to the master weights that require one now and to no other tensor, even if
  /// other models took part in the loss. Costs a walk over the graph, some nanoseconds per node.
  /// Only if the walk met another leaf is autograd given a list of inputs, in which it looks up
  /// every node. Before that, calls `other(leaf)` for each use of such a leaf, and
  /// `other.end_walk()` at the end.
  template <class Other>
  void backward(const Roots& roots, const Other& other) {
    walk(roots, [&](const at::Tensor& leaf) { other(leaf); });
    other.end_walk();
    backward_after_walk(roots);
  }

  /// Runs all of a backward pass, and writes no gradient.
  void backward_of_dummy(const Roots& roots);

 private:
  using Node = torch::autograd::Node;
  using AccumulateGrad = torch::autograd::AccumulateGrad;

  using AtOther = c10::function_ref<void(const at::Tensor& leaf)>;

  void walk(const Roots& roots, AtOther other);
  void visit(const torch::autograd::Edge& edge, AtOther other);
  bool is_master(const Node& end) const;
  /// Visits an end of the graph that is no master weight: another leaf, or no leaf.
  void visit_other(const Node& end, AtOther other);
  void backward_after_walk(const Roots& roots) const;
  std::vector<at::Tensor> trained_masters() const;

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
