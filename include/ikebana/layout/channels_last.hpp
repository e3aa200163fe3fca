#pragma once
// Defines the policy Layout<ChannelsLast> and its mechanism.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// PyTorch's `model.to(memory_format=torch.channels_last)`, also applied to every batch: tensors of
/// four dimensions (N, C, H, W) keep their shape, and the C values of a pixel lie beside each other
/// in memory. Applies to the model's parameters and buffers when the trainer is made, to the
/// optimizer's state, which is laid out like its parameter, and to the tensors of each batch; the
/// model's activations follow. The results differ by rounding from the results of contiguous
/// tensors. Saved states are in the order of indices, so each layout reads the states of the other.
/// Cost: a copy of a batch's images, unless they have this layout already. Whether it is faster
/// depends on the model (docs/layout.md): measure it. Throws StepFailed if the model calls `view`
/// on a tensor that is no longer contiguous: write `reshape` or `flatten` there. Source:
/// torch.channels_last; LibTorch's modules have no such method.
template <>
struct Layout<ChannelsLast> {};

namespace detail {

/// Returns these values with the channels of a pixel beside each other. Returns the tensor itself
/// if it does not have four dimensions or has this layout already.
at::Tensor channels_last(const at::Tensor& t);

}  // namespace detail

template <>
struct Mechanism<Layout<ChannelsLast>> : LayoutHooks {
  using carries_out = Layout<ChannelsLast>;
  Layout<ChannelsLast> values;
  explicit Mechanism(Layout<ChannelsLast> v) : values(v) {}

  void attach(c10::Device, const UnitTable& units);
  template <class Batch>
  Batch place(const Batch& batch, c10::Device) {
    Batch placed = batch;
    detail::for_each_tensor(placed, [](at::Tensor& t) { t = detail::channels_last(t); });
    return placed;
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/layout/impl/channels_last.ipp>
#endif
