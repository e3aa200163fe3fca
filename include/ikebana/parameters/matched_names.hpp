#pragma once
// Rules by name that match no parameter: most often a name that is misspelt.
#include <algorithm>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/parameters/rule.hpp>

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
inline void check_matches(const char* of, const ParameterRule& rule,
                          const std::vector<std::string>& names, const char* cure) {
  const auto* by_name = rule.target<NamePatterns>();
  if (by_name != nullptr && std::none_of(names.begin(), names.end(), std::cref(*by_name)))
    throw BadValue(std::string(of) + " no parameter" + nearest_names(by_name->patterns, names) +
                   cure);
}
/// The same for the rule by name whose parameters `matrices_but` leaves out.
inline void check_left_out(const char* of, const ParameterRule& rule,
                           const std::vector<std::string>& names) {
  if (const auto* matrices = rule.target<MatricesBut>())
    check_matches((std::string(of) + ": matrices_but leaves out").c_str(), matrices->left_out,
                  names, ". Correct its rule, or write two_dimensional for all matrices.");
}

}  // namespace ikebana::detail
