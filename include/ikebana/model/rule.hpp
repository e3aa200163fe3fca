#pragma once
// Rules that choose parameters by name or shape: of parameter groups and of Freeze.
#include <algorithm>
#include <concepts>
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

namespace detail {

/// True for what has a name that one of these shell patterns matches: a parameter, given by its
/// name and itself, or what has a field `name`.
struct NamePatterns {
  std::vector<std::string> patterns;

  template <class... Rest>
  bool operator()(const std::string& name, const Rest&...) const {
    auto matches = [&](const auto& pattern) { return matches_pattern(name, pattern); };
    return std::any_of(patterns.begin(), patterns.end(), matches);
  }
  template <class Named>
    requires requires(const Named& named) { named.name; }
  bool operator()(const Named& named) const {
    if constexpr (requires { named.also_named; })
      for (const auto& name : named.also_named)
        if ((*this)(name)) return true;
    return (*this)(named.name);
  }
};

}  // namespace detail

/// What something is about: a function of `const Args&...` to bool, or a shell pattern of names, as
/// `.match = "head.*"`, or several, as `.match = {"embed.*", "head.*"}`. Copies share the function,
/// so that a mechanism can tell that another one was assigned.
template <class... Args>
class Rule {
 public:
  /// What a rule is made of.
  using Function = std::function<bool(const Args&...)>;

  /// No rule; calling it throws std::bad_function_call.
  Rule() = default;
  /// Of any callable.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Rule> && std::is_constructible_v<Function, F>)
  Rule(F&& f) {
    if (Function function(std::forward<F>(f)); function)
      function_ = std::make_shared<const Function>(std::move(function));
  }
  /// By name; an empty pattern, or none, is no rule.
  Rule(const char* pattern) : Rule(std::string(pattern == nullptr ? "" : pattern)) {}
  /// By name, as a shell pattern.
  Rule(const std::string& pattern) {
    if (!pattern.empty()) *this = detail::NamePatterns{{pattern}};
  }
  /// By name, as one of several shell patterns.
  Rule(std::initializer_list<const char*> patterns) {
    detail::NamePatterns all;
    for (const char* pattern : patterns)
      if (pattern != nullptr) all.patterns.emplace_back(pattern);
    *this = std::move(all);
  }
  /// Whether the rule holds for these.
  bool operator()(const Args&... args) const {
    return function_ ? (*function_)(args...) : Function()(args...);
  }
  /// Whether there is a rule.
  explicit operator bool() const { return function_ != nullptr; }
  /// True for copies of one rule, and for rules by the same names.
  bool is(const Rule& other) const {
    return function_ == other.function_ || (!patterns().empty() && patterns() == other.patterns());
  }
  /// Of a rule by name alone; of any other, none.
  const std::vector<std::string>& patterns() const {
    static const std::vector<std::string> none;
    const auto* names = target<detail::NamePatterns>();
    return names != nullptr ? names->patterns : none;
  }
  /// The function, where it is an `F`; else null.
  template <class F>
  const F* target() const {
    return function_ ? function_->template target<F>() : nullptr;
  }

 private:
  std::shared_ptr<const Function> function_;
};

/// True for the parameters that something is about; sees the full name and the parameter. It is
/// called when the trainer is made, so what it returns may depend on these two only. Of a tied
/// weight, a pattern is compared with all names, and a function sees the first.
using ParameterRule = Rule<std::string, at::Tensor>;

/// Names by shell pattern, by one of several: `named("*.bias")`, `named("embed.*", "head.*")`. A
/// string alone is such a rule, too.
template <class... Patterns>
ParameterRule named(Patterns... patterns) {
  return detail::NamePatterns{{std::move(patterns)...}};
}
/// Biases and the weights of norms: parameters of at most one dimension.
bool one_dimensional(const std::string&, const at::Tensor& parameter);
/// Matrices: weights of linear layers, and of embeddings.
bool two_dimensional(const std::string&, const at::Tensor& parameter);
namespace detail {
struct MatricesBut {
  ParameterRule left_out;

  bool operator()(const std::string& name, const at::Tensor& parameter) const;
};
}  // namespace detail
/// Matrices but for those that `rule` matches: `matrices_but({"embed.*", "head.*"})`. Where that
/// is by name and matches no parameter, Muon and Combined throw BadValue.
ParameterRule matrices_but(ParameterRule rule);

namespace detail {
/// Whether a rule holds for a parameter that has these names: patterns are compared with each, and
/// a function is given the first, as `named_parameters` of Python has it.
bool holds_for(const ParameterRule& rule, const std::string& name,
               const std::vector<std::string>& others, const at::Tensor& parameter);
/// The same for one of the masters.
template <class Masters>
bool holds_for(const ParameterRule& rule, const Masters& masters, std::size_t i) {
  return holds_for(rule, masters.names[i], masters.others_of(i), masters.whole(i));
}
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/model/impl/rule.ipp>
#endif
