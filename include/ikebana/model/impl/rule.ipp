#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/model/rule.hpp>

namespace ikebana {

IKEBANA_INLINE bool one_dimensional(const std::string&, const at::Tensor& parameter) {
  return parameter.dim() <= 1;
}

IKEBANA_INLINE bool two_dimensional(const std::string&, const at::Tensor& parameter) {
  return parameter.dim() == 2;
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE bool MatricesBut::operator()(const std::string& name,
                                            const at::Tensor& parameter) const {
  return two_dimensional(name, parameter) && !left_out(name, parameter);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE ParameterRule matrices_but(ParameterRule rule) {
  return detail::MatricesBut{std::move(rule)};
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE bool holds_for(const ParameterRule& rule, const std::string& name,
                              const std::vector<std::string>& others, const at::Tensor& parameter) {
  if (const auto* matrices = rule.target<MatricesBut>())
    return two_dimensional(name, parameter) &&
           !holds_for(matrices->left_out, name, others, parameter);
  const auto* patterns = rule.target<NamePatterns>();
  return rule(name, parameter) ||
         (patterns != nullptr && std::any_of(others.begin(), others.end(), std::cref(*patterns)));
}

}  // namespace ikebana::detail
