#pragma once
// Hooks after a leaf's gradient is complete. LibTorch has one slot a tensor for them; here several
// share it.

#include <functional>
#include <ikebana/posix/library.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// What sits in a tensor's slot: first whoever was there before, then our hooks in the order they
/// came.
class PostAccumulateChainV1 : public torch::autograd::PostAccumulateGradHook {
 public:
  using Call = std::function<void(const at::Tensor&)>;
  struct Entry {
    Call call;
    bool removed = false;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  explicit PostAccumulateChainV1(std::unique_ptr<torch::autograd::PostAccumulateGradHook> former)
      : former_(std::move(former)), entries_(std::make_shared<Entries>()) {
    // Hooks of other libraries may join this chain, and stay when this library's are gone.
    static const char here = 0;
    [[maybe_unused]] static const bool kept = (keep_loaded(&here), true);
  }

  void operator()(const torch::autograd::Variable& leaf) override {
    // A copy: a hook may remove itself or others, and with the last one this chain.
    const auto entries = *entries_;
    if (former_) (*former_)(leaf);
    for (const auto& entry : entries)
      if (!entry->removed) entry->call(leaf);
  }

  const std::shared_ptr<Entries>& entries() const { return entries_; }
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> take_former() {
    return std::move(former_);
  }

 private:
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> former_;
  std::shared_ptr<Entries> entries_;
};

/// A function that runs after a leaf's gradient has been accumulated, until this handle is
/// destroyed. The leaf's former hook is kept and called first; it is put back when the last handle
/// goes, in whatever order they go. Costs some tens of nanoseconds a gradient. Runs on the engine's
/// thread; make and destroy it while no backward pass runs, or from a hook. Keeps the leaf's
/// gradient hooks, not the leaf itself, alive. Throws ikebana::Error for a tensor that is no leaf
/// or needs no gradient.
class PostAccumulateHook {
 public:
  PostAccumulateHook(const at::Tensor& leaf, PostAccumulateChainV1::Call call)
      : leaf_(check(leaf).getIntrusivePtr()),
        entry_(new PostAccumulateChainV1::Entry{std::move(call)}) {
    auto& slot = torch::autograd::impl::post_acc_grad_hooks(leaf);
    auto* chain = dynamic_cast<PostAccumulateChainV1*>(slot.get());
    if (chain == nullptr) {
      auto made = std::make_unique<PostAccumulateChainV1>(std::move(slot));
      chain = made.get();
      slot = std::move(made);
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
          "PostAccumulateHook: the tensor is not a leaf that requires a gradient, so none is ever "
          "accumulated into it. Give it a parameter, or a tensor after requires_grad_().");
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
    if (chain != nullptr && chain->entries() == entries) slot = chain->take_former();
  }

  Leaf leaf_;
  std::weak_ptr<PostAccumulateChainV1::Entries> entries_;
  std::shared_ptr<PostAccumulateChainV1::Entry> entry_;
};

}  // namespace ikebana::bridge
