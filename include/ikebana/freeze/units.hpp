#pragma once
#include <ikebana/freeze/frozen.hpp>

namespace ikebana {

/// Units of these types, which the model declares, are not trained: all parameters inside them, as
/// requires_grad_(false) by hand, while the trainer lives; then they require what they did before.
/// They get no gradient and no optimizer state; frozen layers before the first trained one get no
/// backward, and those behind it no gradients of weights. Buffers and modes (batch norm, dropout)
/// stay as they are: see torch::nn::Module::eval. Costs nothing in a step.
template <class... Units>
struct Freeze {};

/// The same of parameters that a rule chooses: Freeze<>{.match = named("embed.*")}. Needs a value.
/// A rule that matches nothing, or leaves nothing to train, is an error when the trainer is made.
template <>
struct Freeze<> {
  ParameterRule match;
};

template <class... Units>
struct Mechanism<Freeze<Units...>> : Hooks {
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

  detail::Frozen frozen_;
};

template <>
struct Mechanism<Freeze<>> : Hooks {
  Freeze<> values;
  explicit Mechanism(Freeze<> v) : values(std::move(v)) {
    if (!values.match)
      throw BadValue("Freeze<>: it has no rule. Give one: Freeze<>{.match = named(\"embed.*\")}.");
  }
  void freeze(const UnitTable& table) {
    torch::nn::Module& model = *table.units()[0].module;
    for (const auto& item : model.named_parameters())
      if (values.match(item.key(), item.value())) frozen_.add(item.value());
    if (frozen_.matched() == 0)
      throw BadValue(
          "Freeze<>: its rule matches no parameter. Mend it, or leave it out; it is given the "
          "names of named_parameters().");
    frozen_.check(model, "Freeze<>");
  }
  std::string describe() const { return frozen_.describe(); }

 private:
  detail::Frozen frozen_;
};

}  // namespace ikebana
