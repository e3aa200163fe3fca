#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/names.hpp>
#include <ikebana/program/export/weights.hpp>
#include <sstream>

namespace ikebana::detail::exported {

/// Throws BadModel if a part of the path is a name that Python reserves for itself.
inline void check_path_of_weight(const std::string& path) {
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');)
    if (is_name_of_module(part))
      throw BadModel(
          "export_program: `" + path + "` has `" + part +
          "` in its name, which Python or each of its modules has for itself, so that Python "
          "could not load the program. Register it under another name, such as `" +
          part + "_`.");
}

IKEBANA_INLINE ModelWeights::ModelWeights(torch::nn::Module& root) {
  std::unordered_map<const c10::TensorImpl*, std::vector<std::string>> modules;
  const auto add = [&](const auto& named, bool is_parameter) {
    for (const auto& item : named) {
      if (!item.value().defined()) continue;
      check_path_of_weight(item.key());
      all_.push_back({item.key(), item.value(), is_parameter, {}});
      modules[item.value().unsafeGetTensorImpl()].push_back(module_part(item.key()));
    }
  };
  add(root.named_parameters(), true), add(root.named_buffers(), false);
  for (NamedWeight& weight : all_) weight.modules = modules[weight.tensor.unsafeGetTensorImpl()];
  const auto add_module = [&](const torch::nn::Module& module, const std::string& path) {
    paths_.emplace(&module, path);
    modules_.emplace_back(path, without_impl(without_namespace(module.name())));
  };
  add_module(root, "");  // the root may lie on the stack, without an owner
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false))
    add_module(*item.value(), item.key());
}

IKEBANA_INLINE const std::string* ModelWeights::path_of(const torch::nn::Module* module) const {
  const auto found = paths_.find(module);
  return found == paths_.end() ? nullptr : &found->second;
}

}  // namespace ikebana::detail::exported
