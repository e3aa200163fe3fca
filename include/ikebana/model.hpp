#pragma once
// Defines a model as the trainer sees it: its module, its units, and which unit owns which
// parameter.
#include <ikebana/detail/torch.hpp>
#include <ikebana/grammar/units.hpp>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana {

/// The children of a torch::nn::Sequential, which are its units.
struct Children;
template <>
struct UnitsOf<torch::nn::SequentialImpl> {
  using type = Children;
};

/// One unit of the model: the part that is checkpointed, sharded or offloaded as one. The whole
/// model is the root unit, with an empty name.
struct Unit {
  std::string name;                                   ///< its path in the model: `blocks.0`
  std::shared_ptr<torch::nn::Module> module;          ///< the module itself
  std::vector<std::string> names;                     ///< the names of the parameters below
  std::vector<at::Tensor> parameters;                 ///< parameters that no inner unit owns
  std::size_t index = 0;                              ///< in UnitTable::units
  std::vector<std::vector<std::string>> other_names;  ///< further names of each, if it is a tied
                                                      ///< weight
  std::vector<std::string> also_named;  ///< further paths of a module that is registered twice
  /// Returns true if it is the whole model.
  bool is_root() const { return index == 0; }
};

namespace detail {

/// The type by which a trainer keeps a model: for a module type, a shared_ptr.
template <class Model>
struct handle_of {
  using type = Model;
};
template <class Model>
  requires std::is_base_of_v<torch::nn::Module, Model>
struct handle_of<Model> {
  using type = std::shared_ptr<Model>;
};
template <class Model>
using handle_of_t = typename handle_of<Model>::type;

/// Returns the module behind a holder, a shared_ptr, an AnyModule or a reference; null if that is
/// empty.
template <class Holder>
std::shared_ptr<torch::nn::Module> module_of(Holder& holder) {
  if constexpr (requires { holder.ptr(); }) return holder.is_empty() ? nullptr : holder.ptr();
  else if constexpr (std::is_base_of_v<torch::nn::Module, Holder>) return holder.shared_from_this();
  else return holder;
}

/// Returns the address of that module, without ownership.
template <class Holder>
const torch::nn::Module* module_address(Holder& holder) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Holder>) return &holder;
  else if constexpr (requires { holder.is_empty() ? nullptr : holder.get(); })
    return holder.is_empty() ? nullptr : holder.get();
  else return module_of(holder).get();
}

template <class List>
struct is_unit;
template <class... Modules>
struct is_unit<Units<Modules...>> {
  bool operator()(torch::nn::Module& module, const std::string&) const {
    return (dynamic_cast<impl_of_t<Modules>*>(&module) || ...);
  }
};
template <>
struct is_unit<Children> {
  bool operator()(torch::nn::Module&, const std::string& name) const;
};
template <>
struct is_unit<void> {
  bool operator()(torch::nn::Module&, const std::string&) const { return false; }
};

/// A parameter, its first name, the unit it belongs to, and its other names.
struct ParameterPlace {
  at::Tensor parameter;
  std::string name;
  std::size_t unit;
  std::vector<std::string> other_names;
};

}  // namespace detail

/// All units of a model, found once by walking its modules, the root first. A parameter belongs to
/// its innermost unit; one that two units share, to the root. Costs a walk when the trainer is
/// made.
class UnitTable {
 public:
  /// Returns the units of a model, which is a module, a holder or a shared pointer.
  template <class Model>
  static UnitTable of(Model& model) {
    return of_module(detail::module_of(model), detail::is_unit<detail::units_of_t<Model>>());
  }

  /// Returns the unit of a module. Throws BadModel for a module that the model did not have when
  /// the trainer was made.
  const Unit& at(const torch::nn::Module* module) const;
  /// Returns all units, the root first, then in the order of the modules.
  const std::vector<Unit>& units() const { return units_; }

 private:
  using IsUnit = c10::function_ref<bool(torch::nn::Module&, const std::string& name)>;
  static UnitTable of_module(const std::shared_ptr<torch::nn::Module>& model, IsUnit is_unit);
  void add(const std::string& name, std::shared_ptr<torch::nn::Module> module);
  /// Returns the innermost unit on the path of a name: `blocks.0.linear.weight` belongs to
  /// `blocks.0`.
  std::size_t innermost(const std::string& name, const std::map<std::string, std::size_t>& by_name);
  void own();
  /// Adds the names of layers whose weight is another layer's: `head->weight = embed->weight`.
  void add_assigned(const std::unordered_map<const void*, std::size_t>& seen,
                    std::vector<detail::ParameterPlace>& places);

  std::vector<Unit> units_;
  std::unordered_map<const void*, std::size_t> index_;  // the index, by module
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/model.ipp>
#endif
