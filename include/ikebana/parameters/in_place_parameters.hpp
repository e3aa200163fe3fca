#pragma once
// Parameters that are their own master weights: nothing is gathered or reduced.
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

namespace detail {

/// Makes the parameters of a model its master weights.
class InPlaceMasters {
 public:
  InPlaceMasters();
  ~InPlaceMasters();
  InPlaceMasters(const InPlaceMasters&) = delete;
  InPlaceMasters& operator=(const InPlaceMasters&) = delete;

  const Masters& masters() const { return masters_; }
  void state(Archive& archive);

 protected:
  void take(const UnitTable& table, UpdateRounding* rounding, StateStorage* storage);

  Masters masters_;
  Leaves leaves_;
};

}  // namespace detail

/// The parameters of a recipe in which no mechanism moves parameters. Costs a walk over the model
/// when the trainer is made, and nothing afterwards.
template <class Mechanisms>
class InPlaceParameters : public detail::InPlaceMasters {
 public:
  InPlaceParameters(Mechanisms& mechanisms, const UnitTable& table) {
    if constexpr (Mechanisms::listens_to_backward)
      calls_ = std::make_shared<BackwardCalls<Mechanisms>>(mechanisms);
    if constexpr (!Mechanisms::one_rank)
      for (const Unit& unit : table.units()) mechanisms.shard.full_parameters(unit);
    take(table, mechanisms.precision.rounding(), mechanisms.offload.state_storage());
  }

  /// Is called only if a mechanism listens to backward.
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
  /// Calls `others` for each leaf that is not one of the parameters.
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

 private:
  std::shared_ptr<BackwardCalls<Mechanisms>> calls_;  // graphs hold it weakly
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/in_place_parameters.ipp>
#endif
