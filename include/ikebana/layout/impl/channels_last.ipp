#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/layout/channels_last.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor channels_last(const at::Tensor& t) {
  if (!t.defined() || t.layout() != at::kStrided || t.dim() != 4) return t;
  return t.contiguous(at::MemoryFormat::ChannelsLast);
}

/// Allocates the new memory of every tensor before it changes one, so a failure changes none.
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

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Mechanism<Layout<ChannelsLast>>::attach(c10::Device, const UnitTable& units) {
  detail::to_channels_last(*units.units()[0].module);
}

}  // namespace ikebana
