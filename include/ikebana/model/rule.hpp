#pragma once
// Defines rules that choose parameters by name or shape, for parameter groups and Freeze.
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

/// Returns true for an object whose name one of these shell patterns matches. The object is a
/// parameter, given by its name and itself, or has a field `name`.
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

/// Chooses the objects to which something applies: a function of `const Args&...` to bool, or a
/// shell pattern of names, as `.match = "head.*"`, or several, as `.match = {"embed.*", "head.*"}`.
/// Copies share the function, so that a mechanism can detect that another one was assigned.
template <class... Args>
class Rule {
 public:
  /// The type of a rule's function.
  using Function = std::function<bool(const Args&...)>;

  /// Makes no rule. Calling it throws std::bad_function_call.
  Rule() = default;
  /// Makes a rule of any callable.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Rule> && std::is_constructible_v<Function, F>)
  Rule(F&& f) {
    if (Function function(std::forward<F>(f)); function)
      function_ = std::make_shared<const Function>(std::move(function));
  }
  /// Makes a rule by name. An empty pattern or null is no rule.
  Rule(const char* pattern) : Rule(std::string(pattern == nullptr ? "" : pattern)) {}
  /// Makes a rule by name, from a shell pattern.
  Rule(const std::string& pattern) {
    if (!pattern.empty()) *this = detail::NamePatterns{{pattern}};
  }
  /// Makes a rule by name, from several shell patterns.
  Rule(std::initializer_list<const char*> patterns) {
    detail::NamePatterns all;
    for (const char* pattern : patterns)
      if (pattern != nullptr) all.patterns.emplace_back(pattern);
    *this = std::move(all);
  }
  /// Returns whether the rule holds for these arguments.
  bool operator()(const Args&... args) const {
    return function_ ? (*function_)(args...) : Function()(args...);
  }
  /// Returns whether there is a rule.
  explicit operator bool() const { return function_ != nullptr; }
  /// Returns true for copies of one rule, and for rules by the same names.
  bool is(const Rule& other) const {
    return function_ == other.function_ || (!patterns().empty() && patterns() == other.patterns());
  }
  /// Returns the patterns of a rule by name; an empty list for any other rule.
  const std::vector<std::string>& patterns() const {
    static const std::vector<std::string> none;
    const auto* names = target<detail::NamePatterns>();
    return names != nullptr ? names->patterns : none;
  }
  /// Returns the function if it is an `F`; else null.
  template <class F>
  const F* target() const {
    return function_ ? function_->template target<F>() : nullptr;
  }

 private:
  std::shared_ptr<const Function> function_;
};

/// A rule for the parameters to which something applies. It takes the full name and the parameter.
/// It is called when the trainer is made, so its result may depend on these two only. For a tied
/// weight, a pattern is compared with all names, and a function gets the first.
using ParameterRule = Rule<std::string, at::Tensor>;

/// Makes a rule for names that match one of several shell patterns: `named("*.bias")`,
/// `named("embed.*", "head.*")`. A single string is such a rule, too.
template <class... Patterns>
ParameterRule named(Patterns... patterns) {
  return detail::NamePatterns{{std::move(patterns)...}};
}
/// Returns a rule for biases and the weights of norms: parameters of at most one dimension.
bool one_dimensional(const std::string&, const at::Tensor& parameter);
/// Returns a rule for matrices: weights of linear layers, and of embeddings.
bool two_dimensional(const std::string&, const at::Tensor& parameter);
namespace detail {
struct MatricesBut {
  ParameterRule left_out;

  bool operator()(const std::string& name, const at::Tensor& parameter) const;
};
}  // namespace detail
/// Makes a rule for all matrices except the ones that `rule` matches: `matrices_but({"embed.*",
/// "head.*"})`. If `rule` is by name and matches no parameter, Muon and Combined throw BadValue.
ParameterRule matrices_but(ParameterRule rule);

namespace detail {
/// Returns whether a rule holds for a parameter that has these names: patterns are compared with
/// each name, and a function gets the first, which Python's `named_parameters` gives.
bool holds_for(const ParameterRule& rule, const std::string& name,
               const std::vector<std::string>& others, const at::Tensor& parameter);
/// Returns whether a rule holds for one of the masters.
template <class Masters>
bool holds_for(const ParameterRule& rule, const Masters& masters, std::size_t i) {
  return holds_for(rule, masters.names[i], masters.others_of(i), masters.whole(i));
}
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/model/impl/rule.ipp>
#endif
