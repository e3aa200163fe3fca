#pragma once
// Rules that choose parameters by name or shape: of parameter groups and of Freeze.
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// True for the parameters that something is about; sees the full name and the parameter.
using ParameterRule = std::function<bool(const std::string& name, const at::Tensor& parameter)>;

/// Names by shell pattern, by one of several: `named("*.bias")`, `named("embed.*", "head.*")`.
template <class... Patterns>
ParameterRule named(Patterns... patterns) {
  return [all = std::vector<std::string>{std::move(patterns)...}](const std::string& name,
                                                                  const at::Tensor&) {
    for (const std::string& pattern : all)
      if (detail::matches_pattern(name, pattern)) return true;
    return false;
  };
}
/// Biases and the weights of norms: parameters of at most one dimension.
inline bool one_dimensional(const std::string&, const at::Tensor& parameter) {
  return parameter.dim() <= 1;
}
/// Matrices: weights of linear layers, and of embeddings.
inline bool two_dimensional(const std::string&, const at::Tensor& parameter) {
  return parameter.dim() == 2;
}
/// Matrices but for those that `rule` matches: `matrices_but(named("embed.*", "head.*"))`.
inline ParameterRule matrices_but(ParameterRule rule) {
  return [rule = std::move(rule)](const std::string& name, const at::Tensor& parameter) {
    return two_dimensional(name, parameter) && !rule(name, parameter);
  };
}

}  // namespace ikebana
