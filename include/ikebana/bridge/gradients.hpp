#pragma once
// Hooks that run after a leaf's gradient has been accumulated. LibTorch has one slot per tensor for
// such a hook; here several hooks share it.

#include <functional>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <vector>

namespace ikebana::bridge {

/// The hook in a tensor's slot: calls the hook that was in the slot before, then the hooks of this
/// library in the order in which they were added.
class PostAccumulateChainV1 : public torch::autograd::PostAccumulateGradHook {
 public:
  using Call = std::function<void(const at::Tensor&)>;
  struct Entry {
    Call call;
    bool removed = false;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  explicit PostAccumulateChainV1(std::unique_ptr<torch::autograd::PostAccumulateGradHook> previous);

  IKEBANA_INLINE void operator()(const torch::autograd::Variable& leaf) override;

  const std::shared_ptr<Entries>& entries() const { return entries_; }
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> take_previous();

 private:
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> previous_;
  std::shared_ptr<Entries> entries_;
};

/// Returns true if a hook is called with the gradient of this leaf, before or after it is
/// accumulated.
bool has_gradient_hooks(const at::Tensor& leaf);

/// A function that runs after a leaf's gradient has been accumulated, until this handle is
/// destroyed. A hook that was in the leaf's slot before is kept and called first; it is restored
/// when the last handle is destroyed, in any order of destruction. Does not run while the leaf has
/// no gradient, as after a backward that passed on none. Costs some tens of nanoseconds
/// per gradient. Runs on the engine's thread; create and destroy it while no backward pass runs, or
/// from a hook. Does not keep the leaf alive. Throws ikebana::Error for a tensor that is not a leaf
/// or does not require a gradient.
class PostAccumulateHook {
 public:
  PostAccumulateHook(const at::Tensor& leaf, PostAccumulateChainV1::Call call);

  PostAccumulateHook(PostAccumulateHook&&) noexcept = default;
  PostAccumulateHook& operator=(PostAccumulateHook&& other) noexcept;
  ~PostAccumulateHook() { remove(); }

 private:
  using Leaf = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  static const at::Tensor& check(const at::Tensor& leaf);

  void remove() noexcept;

  void restore_slot(const std::shared_ptr<PostAccumulateChainV1::Entries>& entries) noexcept;

  Leaf leaf_;
  std::weak_ptr<PostAccumulateChainV1::Entries> entries_;
  std::shared_ptr<PostAccumulateChainV1::Entry> entry_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/gradients.ipp>
#endif
