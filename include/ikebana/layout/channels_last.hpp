#pragma once
// The policy Layout<ChannelsLast> and its mechanism.
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// PyTorch's `model.to(memory_format=torch.channels_last)`, and the same for every batch: tensors
/// of four dimensions (N, C, H, W) keep their shape, and the C values of a pixel lie beside each
/// other in memory. Applies to the model's parameters and buffers when the trainer is made, to the
/// optimizer's state, which is laid out like its parameter, and to the tensors of each batch; the
/// model's activations follow. The results differ from those of contiguous tensors by rounding.
/// Saved states are in the order of indices, so either layout reads what the other wrote.
/// Cost: a copy of a batch's images, unless they lie so already. Whether it is faster depends on
/// the model (docs/layout.md): measure it. Throws StepFailed where the model calls `view` on what
/// is not contiguous any more: write `reshape` or `flatten` there. Source:
/// torch.channels_last; LibTorch's modules have no such method.
template <>
struct Layout<ChannelsLast> {};

namespace detail {

/// The same values with the channels of a pixel beside each other; tensors that have no four
/// dimensions, or lie so already, as they are.
inline at::Tensor channels_last(const at::Tensor& t) {
  if (!t.defined() || t.layout() != at::kStrided || t.dim() != 4) return t;
  return t.contiguous(at::MemoryFormat::ChannelsLast);
}

/// The new memory of each tensor is made before any is changed, so that a failure changes none.
inline void to_channels_last(const torch::nn::Module& module) {
  std::vector<std::pair<at::Tensor, at::Tensor>> changes;
  auto change = [&](const at::Tensor& t) {
    if (!t.defined() || is_away(t)) return;
    if (at::Tensor now = channels_last(t.detach()); !now.is_same(t)) changes.emplace_back(t, now);
  };
  for (const auto& parameter : each_once(module.parameters())) change(parameter);
  for (const auto& buffer : each_once(module.buffers())) change(buffer);
  for (auto& [tensor, now] : changes) tensor.set_data(now);
}

}  // namespace detail

template <std::same_as<Layout<ChannelsLast>> Policy>
struct Mechanism<Policy> : LayoutHooks {
  using carries_out = Layout<ChannelsLast>;
  Layout<ChannelsLast> values;
  explicit Mechanism(Layout<ChannelsLast> v) : values(v) {}

  void attach(c10::Device, const UnitTable& units) {
    detail::to_channels_last(*units.units()[0].module);
  }
  template <class Batch>
  Batch place(const Batch& batch, c10::Device) {
    Batch placed = batch;
    detail::for_each_tensor(placed, [](at::Tensor& t) { t = detail::channels_last(t); });
    return placed;
  }
};

}  // namespace ikebana
