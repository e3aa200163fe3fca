#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/model/matched_names.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_matches(const char* of, const ParameterRule& rule,
                                  const std::vector<std::string>& names, const char* cure) {
  const auto* by_name = rule.target<NamePatterns>();
  if (by_name != nullptr && std::none_of(names.begin(), names.end(), std::cref(*by_name)))
    throw BadValue(std::string(of) + " no parameter" + nearest_names(by_name->patterns, names) +
                   cure);
}

IKEBANA_INLINE void check_left_out(const char* of, const ParameterRule& rule,
                                   const std::vector<std::string>& names) {
  if (const auto* matrices = rule.target<MatricesBut>())
    check_matches((std::string(of) + ": matrices_but leaves out").c_str(), matrices->left_out,
                  names, ". Correct its rule, or write two_dimensional for all matrices.");
}

}  // namespace ikebana::detail
