#pragma once
#include <algorithm>
#include <exception>
#include <ikebana/checkpoint/frame/unit_state.hpp>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recording.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string cudnn_dropout_in(const torch::nn::Module& unit, c10::Device device) {
  if (!device.is_cuda() || !at::globalContext().userEnabledCuDNN()) return {};
  for (const auto& item : unit.named_modules("", /*include_self=*/true)) {
    const torch::nn::Module& module = *item.value();
    if (drops_out<torch::nn::LSTMImpl>(module) || drops_out<torch::nn::GRUImpl>(module) ||
        drops_out<torch::nn::RNNImpl>(module))
      return item.key().empty() ? module.name() : item.key();
  }
  return {};
}

IKEBANA_INLINE BufferValues::BufferValues(const torch::nn::Module& module) {
  for (const auto& b : each_once(module.buffers()))
    values_.push_back({b, b.detach().clone(), Version(b)});
}

IKEBANA_INLINE bool BufferValues::restore_bytes(Value& value) {
  if (!are_flat_alike(value.buffer, value.copy)) return false;
  copy_flat(value.buffer, value.copy);
  value.version.restore();
  return true;
}

IKEBANA_INLINE void BufferValues::restore() {
  for (auto& value : values_) {
    if (!recording() && restore_bytes(value)) continue;
    value.buffer.variable_data().copy_(value.copy);
    value.version.restore();
  }
}

IKEBANA_INLINE void BufferValues::restore_quietly() noexcept {
  try {
    restore();
  } catch (...) {
    bool all = true;
    for (auto& value : values_) all = restore_bytes(value) && all;
    if (!all) std::terminate();  // values would be wrong
  }
}

IKEBANA_INLINE void BufferValues::drop_unchanged() {
  std::erase_if(values_, [](const Value& value) {
    return !value.version.changed() && !may_change_uncounted(value.buffer);
  });
}

IKEBANA_INLINE bool BufferValues::changed(const at::Tensor& buffer) const {
  return std::any_of(values_.begin(), values_.end(), [&](const Value& value) {
    return value.buffer.is_same(buffer) && value.version.changed();
  });
}

IKEBANA_INLINE void UnitState::forward_ended(const RecomputedUnit& unit) {
  buffers_before_.drop_unchanged();
  versions_.reserve(unit.parameters.size());
  for (const auto& p : unit.parameters) versions_.emplace_back(p);
  for (const auto& b : each_once(unit.module->buffers()))
    if (!buffers_before_.changed(b)) versions_.emplace_back(b);
}

IKEBANA_INLINE bool UnitState::changed() const {
  return std::any_of(versions_.begin(), versions_.end(),
                     [](const Version& v) { return v.changed(); });
}

}  // namespace ikebana::detail
