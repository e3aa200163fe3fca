#pragma once
#include <algorithm>
#include <array>
#include <cctype>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/names.hpp>
#include <string_view>

namespace ikebana::detail::exported {

/// Reserved names of Python, and of the programs that torch.fx writes, with a space on each side.
inline constexpr std::string_view python_words =
    " False None True and as assert async await break class continue def del elif else except "
    "finally for from global if import in is lambda nonlocal not or pass raise return try while "
    "with yield abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr "
    "classmethod compile complex copyright credits delattr dict dir divmod enumerate eval exec "
    "exit filter float format frozenset getattr globals hasattr hash help hex id input int "
    "isinstance issubclass iter len license list locals map max memoryview min next object oct "
    "open ord pow print property quit range repr reversed round set setattr slice sorted "
    "staticmethod str sum super tuple type vars zip inf nan NoneType torch device fx_pytree "
    "pytree self ";

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
  return unused(name, python_words.find(" " + name + " ") == python_words.npos ? 0 : 1);
}

IKEBANA_INLINE std::string Names::add_input(const std::string& base) {
  return unused(identifier(base), 0);
}

}  // namespace ikebana::detail::exported
