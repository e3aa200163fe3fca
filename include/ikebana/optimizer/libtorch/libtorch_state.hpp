#pragma once
// Keeps the state that an optimizer of torch::optim has for each parameter. It is saved and loaded
// by name, and copied, so that a step can be undone.
#include <concepts>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch_optim.hpp>
#include <ikebana/hooks.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// The values that an object with LibTorch's `serialize(OutputArchive&)` writes, by name and
/// without a copy. LibTorch's archives show their values only after they were written to a file and
/// read again.
using ArchiveValues = std::vector<std::pair<std::string, c10::IValue>>;

namespace detail {

torch::jit::Module& module_of(torch::serialize::OutputArchive& archive);
torch::jit::Module& module_of(torch::serialize::InputArchive& archive);

/// Defines `module_of` for an archive. C++ checks no access in an explicit instantiation, so it may
/// name the private member that holds an archive's values.
template <class Archive, torch::jit::Module Archive::* Member>
struct ModuleOf {
  friend torch::jit::Module& module_of(Archive& archive) { return archive.*Member; }
};
template struct ModuleOf<torch::serialize::OutputArchive,
                         &torch::serialize::OutputArchive::module_>;
template struct ModuleOf<torch::serialize::InputArchive, &torch::serialize::InputArchive::module_>;

}  // namespace detail

/// Returns the values that `object.serialize(archive)` writes. Tensors are the object's own.
template <class Object>
ArchiveValues values_of(const Object& object) {
  torch::serialize::OutputArchive archive;
  object.serialize(archive);
  ArchiveValues values;
  for (const auto& value : detail::module_of(archive).named_attributes(/*recurse=*/false))
    values.emplace_back(value.name, value.value);
  return values;
}
/// Calls `object.serialize(archive)` with an archive of these values.
template <class Object>
void set_values(Object& object, const ArchiveValues& values) {
  torch::serialize::OutputArchive written;
  for (const auto& [name, value] : values) written.write(name, value);
  torch::serialize::InputArchive archive;
  detail::module_of(archive) = detail::module_of(written);
  object.serialize(archive);
}

}  // namespace ikebana::bridge

namespace ikebana::detail {

/// The types of LibTorch's optimizer that `Optimizer` is or derives from.
template <class Optimizer>
struct libtorch_types {};
#define IKEBANA_LIBTORCH_TYPES(Name)                   \
  template <std::derived_from<torch::optim::Name> O>   \
  struct libtorch_types<O> {                           \
    using Options = torch::optim::Name##Options;       \
    using ParamState = torch::optim::Name##ParamState; \
  }
IKEBANA_LIBTORCH_TYPES(Adagrad);
IKEBANA_LIBTORCH_TYPES(Adam);
IKEBANA_LIBTORCH_TYPES(AdamW);
IKEBANA_LIBTORCH_TYPES(LBFGS);
IKEBANA_LIBTORCH_TYPES(RMSprop);
IKEBANA_LIBTORCH_TYPES(SGD);
#undef IKEBANA_LIBTORCH_TYPES

/// The options of an optimizer: the type that it names, or LibTorch's.
template <class Optimizer>
struct options_of : libtorch_types<Optimizer> {};
template <class Optimizer>
  requires requires { typename Optimizer::Options; }
struct options_of<Optimizer> {
  using Options = typename Optimizer::Options;
};
template <class Optimizer>
concept has_options = requires { typename options_of<Optimizer>::Options; };

/// Its state of a parameter. The base class, which has no values, stands for no state.
template <class Optimizer>
struct param_state_of {
  using type = torch::optim::OptimizerParamState;
};
template <class Optimizer>
  requires requires { typename libtorch_types<Optimizer>::ParamState; }
struct param_state_of<Optimizer> {
  using type = typename libtorch_types<Optimizer>::ParamState;
};
template <class Optimizer>
  requires requires { typename Optimizer::ParamState; }
struct param_state_of<Optimizer> {
  using type = typename Optimizer::ParamState;
};
template <class Optimizer>
using param_state_t = typename param_state_of<Optimizer>::type;

// Returns the base class, in which these functions are public: after a TORCH_ARG they are private.

torch::optim::OptimizerOptions& base_of(torch::optim::OptimizerOptions& options);
const torch::optim::OptimizerOptions& base_of(const torch::optim::OptimizerOptions& options);
torch::optim::OptimizerParamState& base_of(torch::optim::OptimizerParamState& state);
const torch::optim::OptimizerParamState& base_of(const torch::optim::OptimizerParamState& state);

/// True for LibTorch's own states, whose tensors have the shape and dtype of the parameter.
template <class State>
concept is_libtorch_state = std::is_same_v<State, torch::optim::AdamParamState> ||
                            std::is_same_v<State, torch::optim::AdamWParamState> ||
                            std::is_same_v<State, torch::optim::SGDParamState> ||
                            std::is_same_v<State, torch::optim::RMSpropParamState> ||
                            std::is_same_v<State, torch::optim::AdagradParamState>;

/// Returns the defined tensors of a parameter's state. Asks LibTorch's own states directly, because
/// an archive takes some ten microseconds.
template <class State>
Tensors tensors_of(const State& s) {
  Tensors all;
  if constexpr (!is_libtorch_state<State>) {
    for (const auto& [name, value] : bridge::values_of(base_of(s)))
      if (value.isTensor()) all.push_back(value.toTensor());
  } else {
    if constexpr (requires { s.max_exp_avg_sq(); })
      all = {s.exp_avg(), s.exp_avg_sq(), s.max_exp_avg_sq()};
    else if constexpr (requires { s.grad_avg(); })
      all = {s.square_avg(), s.momentum_buffer(), s.grad_avg()};
    else if constexpr (requires { s.sum(); }) all = {s.sum()};
    else all = {s.momentum_buffer()};
  }
  std::erase_if(all, [](const at::Tensor& t) { return !t.defined(); });
  return all;
}

bool is_saved_number(const c10::IValue& v);

/// Returns `lr=0.01, alpha=0.99`: all options, or only the lr if they cannot be written to an
/// archive.
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
/// Returns the number that was saved, of the type of `usual`, which is the value of a new state.
/// The type is any if `usual` is not defined.
c10::IValue loaded_number(const at::Tensor& saved, const c10::IValue& usual);
/// Returns a copy of a saved tensor on the parameter's device.
template <class State>
at::Tensor loaded_tensor(const at::Tensor& saved, const at::Tensor& p) {
  if constexpr (is_libtorch_state<State>)
    TORCH_CHECK(saved.sizes() == p.sizes() && saved.scalar_type() == p.scalar_type(), "it is ",
                c10::toString(saved.scalar_type()), saved.sizes(), ", the parameter ",
                c10::toString(p.scalar_type()), p.sizes());
  return saved.detach().to(p.device(), /*non_blocking=*/false, /*copy=*/true);
}
/// Returns the tensors that were saved as `name.key`, by key, which has no dot.
StateDict saved_within(Archive& archive, const std::string& name);
/// Makes the state of the parameter `name` from a saved one. Returns null if no state was saved, or
/// if it does not fit, which the archive records.
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
