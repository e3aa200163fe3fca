#pragma once
// Refuses rules by name that match no parameter, most often because a name is misspelt.
#include <ikebana/model/rule.hpp>

namespace ikebana::detail {

/// Returns all names of all parameters of the units of a table, frozen ones included.
template <class Table>
std::vector<std::string> parameter_names(const Table& table) {
  std::vector<std::string> names;
  for (const auto& unit : table.units())
    for (std::size_t i = 0; i < unit.names.size(); ++i) {
      names.push_back(unit.names[i]);
      names.insert(names.end(), unit.other_names[i].begin(), unit.other_names[i].end());
    }
  return names;
}
/// Returns all names of masters.
template <class Masters>
std::vector<std::string> all_names(const Masters& masters) {
  std::vector<std::string> names = masters.names;
  for (const auto& others : masters.other_names)
    names.insert(names.end(), others.begin(), others.end());
  return names;
}
/// Throws BadValue "<of> no parameter (...)<cure>" if `rule` is by name and matches none of the
/// names. A function may be true for none of them.
void check_matches(const char* of, const ParameterRule& rule, const std::vector<std::string>& names,
                   const char* cure);
/// Checks the rule by name whose parameters `matrices_but` leaves out in the same way.
void check_left_out(const char* of, const ParameterRule& rule,
                    const std::vector<std::string>& names);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/model/impl/matched_names.ipp>
#endif
