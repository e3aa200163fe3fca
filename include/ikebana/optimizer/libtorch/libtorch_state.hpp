#pragma once
// The state that an optimizer of torch::optim keeps for each parameter: saved and loaded by name,
// and copied, so that a step can be undone.
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/optimizer/libtorch/libtorch_types.hpp>
#include <memory>

namespace ikebana::detail {

bool is_saved_number(const c10::IValue& v);

/// `lr=0.01, alpha=0.99`: all options, or the lr where they cannot be written to an archive.
template <class Options>
std::string text_of(const Options& options) try {
  std::string text;
  for (const auto& [name, value] : bridge::values_of(base_of(options)))
    text += (text.empty() ? "" : ", ") + name + "=" +
            (value.isDouble() ? exact_text(value.toDouble()) : c10::str(value));
  return text;
} catch (const c10::Error&) {
  return "lr=" + c10::str(base_of(options).get_lr());
}

/// Throws BadModel for a value that cannot be saved.
template <class Optimizer>
void check_values_of_state(const bridge::ArchiveValues& values) {
  for (const auto& [key, value] : values)
    if (!is_saved_number(value) && !value.isTensor() && !value.isNone())
      throw BadModel("LibTorchOptimizer: the state of " + type_name<Optimizer>() + " has `" + key +
                     "`, which is a " + value.tagKind() +
                     ". Write tensors, numbers and bools in its serialize().");
}
/// Saves the state of the parameter `name`.
template <class State>
void save_state(Archive& archive, const std::string& name, const State& state) {
  for (auto& [key, value] : bridge::values_of(base_of(state))) {
    const std::string full = name + "." + key;
    if (value.isTensor()) {
      archive.tensor(full, value.toTensor());
    } else if (value.isDouble()) {
      double number = value.toDouble();
      archive.number(full, number);
    } else if (!value.isNone()) {
      std::int64_t number = value.isInt() ? value.toInt() : value.toBool();
      archive.number(full, number);
    }
  }
}
/// The number that was saved for `usual`, the value of a new state; of any type if that is none.
c10::IValue loaded_number(const at::Tensor& saved, const c10::IValue& usual);
/// A saved tensor, on the parameter's device.
template <class State>
at::Tensor loaded_tensor(const at::Tensor& saved, const at::Tensor& p) {
  if constexpr (is_libtorch_state<State>)
    TORCH_CHECK(saved.sizes() == p.sizes() && saved.scalar_type() == p.scalar_type(), "it is ",
                c10::toString(saved.scalar_type()), saved.sizes(), ", the parameter ",
                c10::toString(p.scalar_type()), p.sizes());
  return saved.detach().to(p.device(), /*non_blocking=*/false, /*copy=*/true);
}
/// What was saved as `name.key`, by the key, which has no dot.
StateDict saved_within(Archive& archive, const std::string& name);
/// Makes the state of the parameter `name` from a saved one; null if none was saved, or if it does
/// not fit, which is recorded.
template <class State>
std::unique_ptr<State> load_state(Archive& archive, const std::string& name, const at::Tensor& p) {
  const StateDict saved = saved_within(archive, name);
  if (saved.empty()) return nullptr;
  auto state = std::make_unique<State>();
  std::map<std::string, c10::IValue> usual;
  for (auto& [key, value] : bridge::values_of(base_of(*state))) usual[key] = value;
  bridge::ArchiveValues values;
  try {
    for (const auto& [key, tensor] : saved) {
      auto known = usual.find(key);
      const bool number = known != usual.end() && !known->second.isTensor() &&
                          (!known->second.isNone() || tensor.dim() == 0);
      if (number) values.emplace_back(key, loaded_number(tensor, known->second));
      else values.emplace_back(key, loaded_tensor<State>(tensor, p));
    }
    for (const auto& [key, value] : usual)
      if (!saved.count(key) && value.isNone()) values.emplace_back(key, value);
    bridge::set_values(base_of(*state), values);
    if constexpr (requires { state->step(); })
      TORCH_CHECK(state->step() >= 0, "its step is ", state->step());
  } catch (const c10::Error& error) {
    archive.add_mismatch(name, "cannot be loaded: " + message_of(error));
    return nullptr;
  }
  return state;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/libtorch/impl/libtorch_state.ipp>
#endif
