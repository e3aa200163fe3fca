#pragma once
// Parameter groups: rules by name or shape that give some parameters other values.
#include <fnmatch.h>
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana {

/// True for the parameters that a group is about; sees the full name and the parameter.
using ParameterRule = std::function<bool(const std::string& name, const at::Tensor& parameter)>;

/// Parameters with values of their own. The first group whose rule matches wins; a rule that
/// matches nothing is an error when the trainer is made. A value left out is the optimizer's.
struct Group {
  ParameterRule match;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// Names by shell pattern, by one of several: `named("*.bias")`, `named("embed.*", "head.*")`.
template <class... Patterns>
ParameterRule named(Patterns... patterns) {
  return [all = std::vector<std::string>{std::move(patterns)...}](const std::string& name,
                                                                  const at::Tensor&) {
    for (const std::string& pattern : all)
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
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
/// The usual group: no weight decay on biases and norms.
inline Group no_decay(ParameterRule match = one_dimensional) {
  return {.match = std::move(match), .weight_decay = 0.0};
}

}  // namespace ikebana
