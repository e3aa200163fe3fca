#pragma once
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <utility>

namespace ikebana::bridge {

IKEBANA_INLINE PostAccumulateChainV1::PostAccumulateChainV1(
    std::unique_ptr<torch::autograd::PostAccumulateGradHook> previous)
    : previous_(std::move(previous)), entries_(ikebana::detail::make_shared_apart<Entries>()) {
  // Other libraries may add hooks to this chain, and these may outlive this library's own hooks.
  static const char address = 0;
  [[maybe_unused]] static const bool loaded = (ikebana::detail::keep_loaded(&address), true);
}

IKEBANA_INLINE void PostAccumulateChainV1::operator()(const torch::autograd::Variable& leaf) {
  // Iterates over a copy: a hook may remove itself or others, and removing the last one destroys
  // this chain.
  const auto entries = *entries_;
  if (previous_) (*previous_)(leaf);
  if (!leaf.grad().defined()) return;  // a backward may pass on an undefined gradient
  for (const auto& entry : entries)
    if (!entry->removed) entry->call(leaf);
}

IKEBANA_INLINE std::unique_ptr<torch::autograd::PostAccumulateGradHook> PostAccumulateChainV1::
    take_previous() {
  return std::move(previous_);
}

IKEBANA_INLINE bool has_gradient_hooks(const at::Tensor& leaf) {
  return !torch::autograd::impl::hooks(leaf).empty() ||
         torch::autograd::impl::post_acc_grad_hooks(leaf) != nullptr;
}

IKEBANA_INLINE PostAccumulateHook::PostAccumulateHook(const at::Tensor& leaf,
                                                      PostAccumulateChainV1::Call call)
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

IKEBANA_INLINE PostAccumulateHook& PostAccumulateHook::operator=(
    PostAccumulateHook&& other) noexcept {
  if (this == &other) return *this;
  remove();
  leaf_ = std::move(other.leaf_);
  entries_ = std::move(other.entries_);
  entry_ = std::move(other.entry_);
  return *this;
}

IKEBANA_INLINE const at::Tensor& PostAccumulateHook::check(const at::Tensor& leaf) {
  if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad())
    throw Error(
        "PostAccumulateHook: the tensor is not a leaf that requires a gradient, so no gradient "
        "is accumulated into it. Pass a parameter, or a leaf after requires_grad_().");
  return leaf;
}

IKEBANA_INLINE void PostAccumulateHook::remove() noexcept {
  if (!entry_) return;
  entry_->removed = true;
  if (const auto entries = entries_.lock()) {
    std::erase(*entries, entry_);
    if (entries->empty()) restore_slot(entries);
  }
  entry_.reset();
}

IKEBANA_INLINE void PostAccumulateHook::restore_slot(
    const std::shared_ptr<PostAccumulateChainV1::Entries>& entries) noexcept {
  const at::Tensor leaf(leaf_.lock());
  if (!leaf.defined()) return;
  auto& slot = torch::autograd::impl::post_acc_grad_hooks(leaf);
  auto* chain = dynamic_cast<PostAccumulateChainV1*>(slot.get());
  if (chain != nullptr && chain->entries() == entries) slot = chain->take_previous();
}

}  // namespace ikebana::bridge
