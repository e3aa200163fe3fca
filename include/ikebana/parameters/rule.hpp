#pragma once
// Rules that choose parameters by name or shape: of parameter groups and of Freeze.
#include <fnmatch.h>
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana {

/// True for the parameters that something is about; sees the full name and the parameter.
using ParameterRule = std::function<bool(const std::string& name, const at::Tensor& parameter)>;

/// Names by shell pattern: `named("*.bias")`, `named("embed.*")`.
inline ParameterRule named(std::string pattern) {
  return [pattern = std::move(pattern)](const std::string& name, const at::Tensor&) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
}
/// Biases and the weights of norms: parameters of at most one dimension.
inline bool one_dimensional(const std::string&, const at::Tensor& parameter) {
  return parameter.dim() <= 1;
}

}  // namespace ikebana
