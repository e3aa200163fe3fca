#pragma once
// Makes names for a program's values that Python accepts as they are.
#include <set>
#include <string>

namespace ikebana::detail::exported {

/// Gives each value a name of its own, as torch.fx does: `linear`, `linear_1`.
class Names {
 public:
  /// Returns a name that begins with `base`. Characters other than letters and digits become `_`. A
  /// name that Python reserves gets a number, because torch.fx would rename it.
  std::string add(const std::string& base);
  /// Returns the name of an input, which may be one that Python reserves.
  std::string add_input(const std::string& base);

 private:
  std::string unused(const std::string& base, int first);

  std::set<std::string> used_;
};

/// Returns true for a keyword of Python, and for a name that each torch.nn.Module uses itself, so
/// that no module or weight of a program can have it: `in`, `type`, `forward`.
bool is_name_of_module(const std::string& name);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/names.ipp>
#endif
