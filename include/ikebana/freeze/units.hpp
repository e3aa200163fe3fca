#pragma once
// Defines Freeze<Block>, by type of unit, and Freeze<>{.match = rule}, by name.
#include <ikebana/detail/process_registry.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/model/rule.hpp>
#include <set>

namespace ikebana {

/// Does not train the units of these types, which the model must declare: all parameters inside
/// them have requires_grad false for the lifetime of the trainer, and then what they had before.
/// They have no gradient and no optimizer state. Backward does not reach frozen layers before the
/// first trained one, and computes no weight gradients in those behind it. Buffers and modes (batch
/// norm, dropout) stay as they are: see torch::nn::Module::eval. Costs nothing in a step.
template <class... Units>
struct Freeze {};

/// Does not train the parameters for which `match` is true: Freeze<>{.match = "embed.*"}.
/// `match` has no default. Making the trainer throws BadValue if `match` is true for no parameter,
/// and BadModel if nothing is left to train.
template <>
struct Freeze<> {
  ParameterRule match;  ///< chooses parameters: a pattern of names, or a function of name and
                        ///< tensor
};

namespace detail {

/// For each frozen parameter that required a gradient before: how many trainers freeze it. Two
/// models may share a backbone that both freeze.
struct __attribute__((visibility("default"))) FrozenParameters {};
using FrozenRegistry = ProcessRegistry<FrozenParameters>;

/// Sets requires_grad to false. A parameter that required a gradient before requires it again when
/// the last FrozenSet that holds it is destroyed.
class FrozenSet {
 public:
  FrozenSet() = default;
  ~FrozenSet();
  FrozenSet(const FrozenSet&) = delete;
  FrozenSet& operator=(const FrozenSet&) = delete;

  void add(at::Tensor p);
  std::size_t size() const { return parameters_.size(); }
  /// Throws BadModel if no parameter of the model is left to train.
  void check(const torch::nn::Module& model, const char* policy) const;
  std::string describe() const;

 private:
  std::vector<at::Tensor> to_restore_;
  std::set<const void*> parameters_;  // their addresses
  std::int64_t elements_ = 0;
};

}  // namespace detail

template <class... Units>
  requires(!std::is_same_v<Freeze<Units...>, Freeze<Off>>)
struct Mechanism<Freeze<Units...>> : FreezeHooks {
  using carries_out = Freeze<Units...>;
  Freeze<Units...> values;
  explicit Mechanism(Freeze<Units...> v) : values(std::move(v)) {}

  void freeze(const UnitTable& table) {
    torch::nn::Module& model = *table.units()[0].module;
    (freeze_units<Units>(model), ...);
    frozen_.check(model, "Freeze<...>");
  }
  std::string describe() const { return frozen_.describe(); }

 private:
  template <class Unit>
  void freeze_units(torch::nn::Module& model) {
    bool found = false;
    for (const auto& module : model.modules(/*include_self=*/false))
      if (dynamic_cast<detail::impl_of_t<Unit>*>(module.get()))
        for (const auto& p : module->parameters()) found = true, frozen_.add(p);
    if (!found)
      throw BadModel("Freeze<...>: the model holds no parameter of a unit " +
                     detail::type_name<detail::impl_of_t<Unit>>() +
                     ". Register one in the model, or leave the type out.");
  }

  detail::FrozenSet frozen_;
};

// Not a constrained template: Freeze<Units...> above would be chosen instead.
template <>
struct Mechanism<Freeze<>> : FreezeHooks {
  using carries_out = Freeze<>;
  Freeze<> values;
  explicit Mechanism(Freeze<> v);
  void freeze(const UnitTable& table);
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    detail::check_unchanged(values.match.is(rule_), "Freeze<>: match");
  }
  std::string describe() const { return frozen_.describe(); }

 private:
  ParameterRule rule_;  // the rule when the trainer was made
  detail::FrozenSet frozen_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/freeze/impl/units.ipp>
#endif
