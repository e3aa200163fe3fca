#pragma once
#include <algorithm>
#include <array>
#include <cctype>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/names.hpp>
#include <string_view>

namespace ikebana::detail::exported {

/// The keywords of Python, with a space on each side.
inline constexpr std::string_view python_keywords =
    " False None True and as assert async await break class continue def del elif else except "
    "finally for from global if import in is lambda nonlocal not or pass raise return try while "
    "with yield ";
/// Other names that Python, or a program that torch.fx writes, reserves for itself.
inline constexpr std::string_view python_names =
    " abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod "
    "compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter "
    "float format frozenset getattr globals hasattr hash help hex id input int isinstance "
    "issubclass iter len license list locals map max memoryview min next object oct open ord pow "
    "print property quit range repr reversed round set setattr slice sorted staticmethod str sum "
    "super tuple type vars zip inf nan NoneType torch device fx_pytree pytree self ";

inline bool is_in(std::string_view names, const std::string& name) {
  return names.find(" " + name + " ") != names.npos;
}

IKEBANA_INLINE bool is_name_of_module(const std::string& name) {
  constexpr std::string_view names =
      " T_destination add_module add_submodule apply bfloat16 buffers call_super_init "
      "children code compile cpu cuda delete_all_unused_submodules delete_submodule double "
      "dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter "
      "get_submodule graph half ipu load_state_dict meta modules mtia named_buffers "
      "named_children named_modules named_parameters parameters print_readable recompile "
      "register_buffer register_module register_parameter requires_grad_ set_extra_state "
      "set_submodule share_memory state_dict to to_empty to_folder train training type xpu "
      "zero_grad ";
  return is_in(names, name) || is_in(python_keywords, name);
}

inline std::string identifier(const std::string& base) {
  std::string name = base;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
  return name;
}

IKEBANA_INLINE std::string Names::unused(const std::string& base, int first) {
  for (int i = first;; ++i) {
    const std::string name = i == 0 ? base : base + "_" + std::to_string(i);
    if (used_.insert(name).second) return name;
  }
}

IKEBANA_INLINE std::string Names::add(const std::string& base) {
  const std::string name = identifier(base);
  return unused(name, is_in(python_keywords, name) || is_in(python_names, name) ? 1 : 0);
}

IKEBANA_INLINE std::string Names::add_input(const std::string& base) {
  return unused(identifier(base), 0);
}

}  // namespace ikebana::detail::exported
