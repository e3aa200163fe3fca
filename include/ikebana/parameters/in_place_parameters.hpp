#pragma once
// Parameters that are their own master weights: nothing is gathered or reduced.
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The parameters of a recipe in which no mechanism overrides `gather`. Costs a walk over the model
/// when the trainer is made, and nothing afterwards.
template <class Mechanisms>
class InPlaceParameters {
 public:
  InPlaceParameters(Mechanisms& mechanisms, const UnitTable& table) {
    if constexpr (Mechanisms::listens_to_backward)
      mechanisms_ = std::make_shared<Mechanisms*>(&mechanisms);
    for (const Unit& unit : table.units()) {
      masters_.names.insert(masters_.names.end(), unit.names.begin(), unit.names.end());
      masters_.values.insert(masters_.values.end(), unit.parameters.begin(), unit.parameters.end());
    }
    masters_.rounding = mechanisms.precision.rounding();
    masters_.storage = mechanisms.offload.state_storage();
    leaves_.set_masters(masters_.values);
  }

  const Masters& masters() const { return masters_; }

  /// Called only where a mechanism listens to backward.
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    return around_unit_backward<Mechanisms>(mechanisms_, unit, next, std::forward<Args>(args)...);
  }
  template <class Next>
  decltype(auto) around_model(const Unit&, Next&& next) {
    return next();
  }
  void begin_step() noexcept {}
  void check_all_were_run() const {}
  void check() const {}
  void backward(const Roots& roots) {
    leaves_.backward(roots, [](const at::Tensor&) { return false; });
  }
  void refresh_gathered() noexcept {}
  void abort() noexcept {}
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    return f();
  }
  void state(Archive& archive) {
    archive.begin_model();
    for (std::size_t i = 0; i < masters_.values.size(); ++i)
      archive.tensor(masters_.names[i], masters_.values[i]);
  }

 private:
  std::shared_ptr<Mechanisms*> mechanisms_;  // graphs hold it weakly
  Masters masters_;
  Leaves leaves_;
};

}  // namespace ikebana
