#pragma once
// Hooks that run after a leaf's gradient has been accumulated. LibTorch has one slot per tensor for
// such a hook; here several hooks share it.

#include <functional>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <memory>
#include <utility>
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

  explicit PostAccumulateChainV1(std::unique_ptr<torch::autograd::PostAccumulateGradHook> previous)
      : previous_(std::move(previous)), entries_(std::make_shared<Entries>()) {
    // Other libraries may add hooks to this chain, and these may outlive this library's own hooks.
    static const char address = 0;
    [[maybe_unused]] static const bool loaded = (ikebana::detail::keep_loaded(&address), true);
  }

  void operator()(const torch::autograd::Variable& leaf) override {
    // Iterates over a copy: a hook may remove itself or others, and removing the last one destroys
    // this chain.
    const auto entries = *entries_;
    if (previous_) (*previous_)(leaf);
    for (const auto& entry : entries)
      if (!entry->removed) entry->call(leaf);
  }

  const std::shared_ptr<Entries>& entries() const { return entries_; }
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> take_previous() {
    return std::move(previous_);
  }

 private:
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> previous_;
  std::shared_ptr<Entries> entries_;
};

/// True where a hook is called with the gradient of this leaf: before it is accumulated, or after.
inline bool has_gradient_hooks(const at::Tensor& leaf) {
  return !torch::autograd::impl::hooks(leaf).empty() ||
         torch::autograd::impl::post_acc_grad_hooks(leaf) != nullptr;
}

/// A function that runs after a leaf's gradient has been accumulated, until this handle is
/// destroyed. A hook that was in the leaf's slot before is kept and called first; it is restored
/// when the last handle is destroyed, in any order of destruction. Costs some tens of nanoseconds
/// per gradient. Runs on the engine's thread; create and destroy it while no backward pass runs, or
/// from a hook. Does not keep the leaf alive. Throws ikebana::Error for a tensor that is not a leaf
/// or does not require a gradient.
class PostAccumulateHook {
 public:
  PostAccumulateHook(const at::Tensor& leaf, PostAccumulateChainV1::Call call)
      : leaf_(check(leaf).getIntrusivePtr()),
        entry_(new PostAccumulateChainV1::Entry{std::move(call)}) {
    auto& slot = torch::autograd::impl::post_acc_grad_hooks(leaf);
    auto* chain = dynamic_cast<PostAccumulateChainV1*>(slot.get());
    if (chain == nullptr) {
      auto new_chain = std::make_unique<PostAccumulateChainV1>(std::move(slot));
      chain = new_chain.get();
      slot = std::move(new_chain);
    }
    entries_ = chain->entries();
    chain->entries()->push_back(entry_);
  }

  PostAccumulateHook(PostAccumulateHook&&) noexcept = default;
  PostAccumulateHook& operator=(PostAccumulateHook&& other) noexcept {
    if (this == &other) return *this;
    remove();
    leaf_ = std::move(other.leaf_);
    entries_ = std::move(other.entries_);
    entry_ = std::move(other.entry_);
    return *this;
  }
  ~PostAccumulateHook() { remove(); }

 private:
  using Leaf = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  static const at::Tensor& check(const at::Tensor& leaf) {
    if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad())
      throw Error(
          "PostAccumulateHook: the tensor is not a leaf that requires a gradient, so no gradient "
          "is accumulated into it. Pass a parameter, or a leaf after requires_grad_().");
    return leaf;
  }

  void remove() noexcept {
    if (!entry_) return;
    entry_->removed = true;
    if (const auto entries = entries_.lock()) {
      std::erase(*entries, entry_);
      if (entries->empty()) restore_slot(entries);
    }
    entry_.reset();
  }

  void restore_slot(const std::shared_ptr<PostAccumulateChainV1::Entries>& entries) noexcept {
    const at::Tensor leaf(leaf_.lock());
    if (!leaf.defined()) return;
    auto& slot = torch::autograd::impl::post_acc_grad_hooks(leaf);
    auto* chain = dynamic_cast<PostAccumulateChainV1*>(slot.get());
    if (chain != nullptr && chain->entries() == entries) slot = chain->take_previous();
  }

  Leaf leaf_;
  std::weak_ptr<PostAccumulateChainV1::Entries> entries_;
  std::shared_ptr<PostAccumulateChainV1::Entry> entry_;
};

}  // namespace ikebana::bridge
