#pragma once
// Rules that choose parameters by name or shape: of parameter groups and of Freeze.
#include <concepts>
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

/// What something is about: a function of `const Args&...` to bool. Copies share the function, so
/// that a mechanism can tell that another one was assigned.
template <class... Args>
class Rule {
 public:
  using Function = std::function<bool(const Args&...)>;

  Rule() = default;
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Rule> && std::is_constructible_v<Function, F>)
  Rule(F&& f) {
    if (Function function(std::forward<F>(f)); function)
      function_ = std::make_shared<const Function>(std::move(function));
  }
  bool operator()(const Args&... args) const {
    return function_ ? (*function_)(args...) : Function()(args...);
  }
  explicit operator bool() const { return function_ != nullptr; }
  /// True for copies of one rule.
  bool is(const Rule& other) const { return function_ == other.function_; }

 private:
  std::shared_ptr<const Function> function_;
};

/// True for the parameters that something is about; sees the full name and the parameter. It is
/// called when the trainer is made, so what it returns may depend on these two only.
using ParameterRule = Rule<std::string, at::Tensor>;

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
