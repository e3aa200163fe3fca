#pragma once
// Parameters that are their own master weights: nothing is gathered or reduced.
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The parameters of a recipe in which no mechanism moves parameters. Costs a walk over the model
/// when the trainer is made, and nothing afterwards.
template <class Mechanisms>
class InPlaceParameters {
 public:
  InPlaceParameters(Mechanisms& mechanisms, const UnitTable& table) {
    if constexpr (Mechanisms::listens_to_backward)
      calls_ = std::make_shared<BackwardCalls<Mechanisms>>(mechanisms);
    for (const Unit& unit : table.units()) {
      if constexpr (!Mechanisms::one_rank) mechanisms.shard.full_parameters(unit);
      for (std::size_t i = 0; i < unit.names.size(); ++i)
        masters_.add(unit.names[i], unit.parameters[i],
                     detail::whole_slice(unit.parameters[i], unit.index), unit.other_names[i]);
    }
    masters_.rounding = mechanisms.precision.rounding();
    masters_.storage = mechanisms.offload.state_storage();
    leaves_.set_masters(masters_.values);
  }

  const Masters& masters() const { return masters_; }

  /// Called only where a mechanism listens to backward.
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    return around_unit_backward(calls_, unit, next, std::forward<Args>(args)...);
  }
  template <class Next>
  decltype(auto) around_model(const Unit&, Next&& next) {
    return next();
  }
  void begin_step() noexcept {}
  void check_all_were_run() const {}
  void check() const {}
  /// `others` is asked about leaves that are none of the parameters.
  template <class Others>
  void backward(const Roots& roots, const Others& others) {
    leaves_.backward(roots, others);
  }
  template <class Others>
  void backward_of_dummy(const Roots& roots, const Others&) {
    leaves_.backward_of_dummy(roots);
  }
  void mark_stale() noexcept {}
  std::uint64_t order_of_units() const { return 0; }
  void forget_originals() noexcept {}
  void keep_full() noexcept {}
  void abort() noexcept {
    if (calls_) calls_->open.clear();
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    return f();
  }
  void state(Archive& archive) {
    archive.begin_model();
    for (std::size_t i = 0; i < masters_.values.size(); ++i)
      archive.rows_of(masters_.slices[i],
                      [&] { archive.tensor(masters_.names[i], masters_.values[i]); });
  }

 private:
  std::shared_ptr<BackwardCalls<Mechanisms>> calls_;  // graphs hold it weakly
  Masters masters_;
  Leaves leaves_;
};

}  // namespace ikebana
