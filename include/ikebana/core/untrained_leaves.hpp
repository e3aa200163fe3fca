#pragma once
// Finds what a loss computes with, what requires a gradient, and what nothing trains: a layer that
// was not registered in its model.
#include <ikebana/core/leaf_watch.hpp>
#include <ikebana/core/mean_watch.hpp>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Asked by a backward pass about the leaves of its graph that are no master weights. Costs nothing
/// where there are none, since each step walks its graph in any case (parameters/leaves.hpp).
///
/// In a watched forward it is known which tensors the forward made itself. In any other one a leaf
/// that nothing owns is noted, the next forward is watched, and it is an error when it is met
/// again.
class UntrainedLeaves {
 public:
  UntrainedLeaves();
  ~UntrainedLeaves();

  /// The loss of a microbatch, which must outlive its backward pass. In the first forward, a mean
  /// that is returned as a sum causes a warning.
  template <class Batch, class F>
  Loss forward(const Batch& microbatch, bool trains, bool is_first, const F& loss) {
    const VisitBatch visit = [](const void* batch, Visit f) {
      for_each_tensor(*static_cast<const Batch*>(batch), f);
    };
    return forward_of(&microbatch, visit, trains, is_first, loss);
  }
  LeafRecord* record() const { return record_.get(); }

  /// What a backward pass asks of each leaf, and at the end of its walk.
  struct Check {
    UntrainedLeaves* self;  // null: nothing is asked
    torch::nn::Module& model;

    void operator()(const at::Tensor& leaf) const;
    void end_walk() const;
  };

 private:
  using Visit = c10::function_ref<void(const at::Tensor&)>;
  using VisitBatch = void (*)(const void* batch, Visit);
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  Loss forward_of(const void* batch, VisitBatch visit, bool trains, bool is_first,
                  c10::function_ref<Loss()> loss);
  void check(torch::nn::Module& model, const at::Tensor& leaf);
  void end_walk();
  /// Throws BadModel for a buffer: it is the model's, and no trainer trains it.
  static bool is_owned(torch::nn::Module& model, const at::Tensor& leaf);
  bool is_in_batch(const at::Tensor& leaf);
  /// Notes the leaves that a tensor of the batch was computed from.
  void visit_graph(const at::Tensor& t);
  [[noreturn]] static void refuse(const std::vector<at::Tensor>& leaves, const LeafRecord* record);

  const void* batch_ = nullptr;  // of the present microbatch
  VisitBatch visit_batch_ = nullptr;
  std::unique_ptr<LeafRecord> record_;
  std::unordered_set<const c10::TensorImpl*> asked_;    // in this walk
  std::vector<at::Tensor> untrained_;                   // of this walk
  std::vector<Weak> seen_;                              // that nothing owned, and no forward showed
  std::unordered_set<const c10::TensorImpl*> allowed_;  // by what outlives a step
  std::unordered_set<const c10::TensorImpl*> batch_leaves_;
  std::unordered_set<const torch::autograd::Node*> visited_;
  bool is_due_ = false;        // the next forward is to be watched
  bool makes_leaves_ = false;  // forwards of this loss make leaves of their own
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/untrained_leaves.ipp>
#endif
