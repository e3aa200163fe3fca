#pragma once
#include <ikebana/core/registered_tensors.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/member_tensors.hpp>
#include <ikebana/error.hpp>
#include <set>

namespace ikebana::detail {

IKEBANA_INLINE RegisteredTensors::RegisteredTensors(const torch::nn::Module& model)
    : tensors_(registered(model)) {
  check(model);
}

IKEBANA_INLINE void RegisteredTensors::check(const torch::nn::Module& model) const {
  const Tensors now = registered(model);
  std::vector<std::string> changes;
  for (const auto& [name, tensor] : now) {
    auto before = tensors_.find(name);
    if (before == tensors_.end()) changes.push_back("`" + name + "` was registered");
    else if (!before->second.is_same(tensor)) changes.push_back("`" + name + "` was replaced");
  }
  for (const auto& [name, tensor] : tensors_)
    if (!now.count(name)) changes.push_back("`" + name + "` was unregistered");
  if (!changes.empty())
    throw BadModel("trainer: " + joined(changes) +
                   " after the trainer was made, which trains and saves what the model had then. "
                   "Make a new trainer after a change of the model's modules.");
  check_members(model, now);
}

IKEBANA_INLINE RegisteredTensors::Tensors RegisteredTensors::registered(
    const torch::nn::Module& model) {
  Tensors all;
  for (const auto& item : model.named_parameters()) all.emplace(item.key(), item.value());
  for (const auto& item : model.named_buffers()) all.emplace(item.key(), item.value());
  return all;
}

IKEBANA_INLINE void RegisteredTensors::check_members(const torch::nn::Module& model,
                                                     const Tensors& now) {
  std::set<const c10::TensorImpl*> known;
  for (const auto& [name, tensor] : now) known.insert(tensor.unsafeGetTensorImpl());
  std::vector<std::string> assigned;
  auto check_module = [&](const std::string& name, const torch::nn::Module& module) {
    each_member_of_libtorch(module, [&](const char* member, const at::Tensor& tensor) {
      if (tensor.defined() && !known.count(tensor.unsafeGetTensorImpl()))
        assigned.push_back("`" + name + (name.empty() ? "" : ".") + member + "`");
    });
  };
  check_module("", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    check_module(item.key(), *item.value());
  if (!assigned.empty())
    throw BadModel("trainer: " + joined(assigned) +
                   " was assigned a tensor that is not registered, so it is neither trained nor "
                   "saved. Copy into the registered one instead: weight.copy_(values), without "
                   "gradients.");
}

IKEBANA_INLINE std::string RegisteredTensors::joined(const std::vector<std::string>& all) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < most; ++i) text += (i > 0 ? ", " : "") + all[i];
  if (all.size() > most) text += " and " + std::to_string(all.size() - most) + " more";
  return text;
}

}  // namespace ikebana::detail
