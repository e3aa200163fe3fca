#pragma once
// Finds what a loss computes with, what requires a gradient, and what nothing trains: a layer that
// was not registered in its model.
#include <ikebana/core/claim.hpp>
#include <ikebana/core/leaf_watch.hpp>
#include <ikebana/core/mean_watch.hpp>
#include <ikebana/core/not_trained.hpp>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Asked by a backward pass about the leaves of its graph that are no master weights. Costs nothing
/// where there are none, since each step walks its graph in any case (parameters/leaves.hpp).
///
/// In a watched forward it is known which tensors the forward made itself. In any other one a leaf
/// that nothing owns is noted, the next forward is watched, and it is an error when it is met
/// again.
template <class = void>
class UntrainedLeaves {
 public:
  /// The loss of a microbatch, which must outlive its backward pass. In the first forward, a mean
  /// that is returned as a sum causes a warning.
  template <class Batch, class F>
  Loss forward(const Batch& microbatch, bool trains, bool is_first, const F& loss) {
    batch_ = &microbatch;
    visit_batch_ = [](const void* batch, UntrainedLeaves& self) {
      for_each_tensor(*static_cast<const Batch*>(batch), [&](const at::Tensor& t) {
        if (t.defined() && t.requires_grad()) self.visit_graph(t);
      });
    };
    record_.reset(), asked_.clear(), untrained_.clear();
    if (!is_first && !(trains && std::exchange(is_due_, false))) return loss();
    record_ = std::make_unique<LeafRecord>();
    const LeafWatch watch(*record_);
    Loss result = watched(is_first, loss);
    record_->check_complete();
    return result;
  }
  LeafRecord* record() const { return record_.get(); }

  /// What a backward pass asks of each leaf, and at the end of its walk.
  struct Check {
    UntrainedLeaves* self;  // null: nothing is asked
    torch::nn::Module& model;

    void operator()(const at::Tensor& leaf) const {
      if (self != nullptr) self->check(model, leaf);
    }
    void end_walk() const {
      if (self != nullptr) self->end_walk();
    }
  };

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  void check(torch::nn::Module& model, const at::Tensor& leaf) {
    if (!leaf.defined() || !leaf.requires_grad()) return;
    const c10::TensorImpl* impl = leaf.unsafeGetTensorImpl();
    if (allowed_.count(impl) != 0 || !asked_.insert(impl).second) return;
    if (is_owned(model, leaf)) return void(allowed_.insert(impl));
    if (is_in_batch(leaf)) return;
    if (record_ && record_->made(leaf)) return void(makes_leaves_ = true);
    std::erase_if(seen_, [](const Weak& weak) { return weak.expired(); });
    const bool is_known = std::any_of(seen_.begin(), seen_.end(), [&](const Weak& weak) {
      return weak._unsafe_get_target() == impl;
    });
    if (!is_known) seen_.emplace_back(leaf.getIntrusivePtr());
    if (record_ || is_known) return untrained_.push_back(leaf);
    is_due_ = !makes_leaves_;
  }
  void end_walk() {
    const auto record = std::exchange(record_, nullptr);
    asked_.clear();
    if (untrained_.empty()) return;
    is_due_ = true;
    refuse(untrained_, record.get());
  }
  /// Throws BadModel for a buffer: it is the model's, and no trainer trains it.
  static bool is_owned(torch::nn::Module& model, const at::Tensor& leaf) {
    for (const auto& p : model.parameters())
      if (p.is_same(leaf)) return true;
    for (const auto& item : model.named_buffers())
      if (item.value().is_same(leaf))
        throw BadModel("step: the buffer `" + item.key() +
                       "` requires a gradient, and buffers are not trained. Register it by "
                       "register_parameter, or call requires_grad_(false) on it.");
    ClaimRegistry& registry = ClaimRegistry::get();
    const std::lock_guard lock(registry.mutex);
    return registry.counts.count(leaf.unsafeGetTensorImpl()) != 0 ||
           DeclaredTensors::get().has(leaf);
  }
  bool is_in_batch(const at::Tensor& leaf) {
    visited_.clear(), batch_leaves_.clear();
    visit_batch_(batch_, *this);
    return batch_leaves_.count(leaf.unsafeGetTensorImpl()) != 0;
  }
  /// Notes the leaves that a tensor of the batch was computed from.
  void visit_graph(const at::Tensor& t) {
    std::vector<torch::autograd::Node*> pending;
    auto visit = [&](const torch::autograd::Edge& edge) {
      auto* node = edge.function.get();
      if (node == nullptr || !visited_.insert(node).second) return;
      pending.push_back(node);
      if (auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
        batch_leaves_.insert(end->variable.unsafeGetTensorImpl());
    };
    visit(torch::autograd::impl::gradient_edge(t));
    while (!pending.empty()) {
      const auto* node = pending.back();
      pending.pop_back();
      for (const auto& edge : node->next_edges()) visit(edge);
    }
  }
  [[noreturn]] static void refuse(const std::vector<at::Tensor>& leaves, const LeafRecord* record) {
    constexpr std::size_t most = 4;
    std::string list;
    for (std::size_t i = 0; i < leaves.size() && i < most; ++i)
      list +=
          (i > 0 ? "; " : "") + tensor_text(leaves[i]) + (record ? record->place(leaves[i]) : "");
    if (leaves.size() > most) list += "; and " + std::to_string(leaves.size() - most) + " more";
    throw BadModel(
        "step: the loss computes with tensors that require a gradient and that nothing trains (" +
        list +
        "). Register the layers that hold them in the model, those of a std::vector one by one "
        "(register_module, register_parameter). Call requires_grad_(false) on what is not to be "
        "trained, or not_trained(tensor) where its gradient is needed.");
  }

  const void* batch_ = nullptr;  // of the present microbatch
  void (*visit_batch_)(const void*, UntrainedLeaves&) = nullptr;
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
