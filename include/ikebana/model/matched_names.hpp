#pragma once
// Rules by name that match no parameter: most often a name that is misspelt.
#include <ikebana/model/rule.hpp>

namespace ikebana::detail {

/// All names of all parameters of the units of a table, frozen ones included.
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
/// All names of masters.
template <class Masters>
std::vector<std::string> all_names(const Masters& masters) {
  std::vector<std::string> names = masters.names;
  for (const auto& others : masters.other_names)
    names.insert(names.end(), others.begin(), others.end());
  return names;
}
/// Throws BadValue if `rule` is by name and matches none of the names, which says "<of> no
/// parameter (...)<cure>". A function may be true for none.
void check_matches(const char* of, const ParameterRule& rule, const std::vector<std::string>& names,
                   const char* cure);
/// The same for the rule by name whose parameters `matrices_but` leaves out.
void check_left_out(const char* of, const ParameterRule& rule,
                    const std::vector<std::string>& names);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/model/impl/matched_names.ipp>
#endif
