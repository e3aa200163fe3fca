#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/weights.hpp>
#include <sstream>

namespace ikebana::detail::exported {

IKEBANA_INLINE bool is_in(std::string_view names, const std::string& name) {
  return names.find(" " + name + " ") != names.npos;
}

IKEBANA_INLINE bool is_keyword_of_python(const std::string& name) {
  constexpr std::string_view keywords =
      " False None True and as assert async await break class continue def del elif else except "
      "finally for from global if import in is lambda nonlocal not or pass raise return try while "
      "with yield ";
  return is_in(keywords, name);
}

/// True for a keyword of Python, and for a name that each torch.nn.Module has for itself, so that
/// no module or weight of a program can have it: `in`, `type`, `forward`.
inline bool is_name_of_module(const std::string& name) {
  constexpr std::string_view names =
      " T_destination add_module add_submodule apply bfloat16 buffers call_super_init "
      "children code compile cpu cuda delete_all_unused_submodules delete_submodule double "
      "dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter "
      "get_submodule graph half ipu load_state_dict meta modules mtia named_buffers "
      "named_children named_modules named_parameters parameters print_readable recompile "
      "register_buffer register_module register_parameter requires_grad_ set_extra_state "
      "set_submodule share_memory state_dict to to_empty to_folder train training type xpu "
      "zero_grad ";
  return is_in(names, name) || is_keyword_of_python(name);
}

/// Throws BadModel if a part of the path is a name that Python has for itself.
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
