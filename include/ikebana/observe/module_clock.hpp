#pragma once
// Measures how long each module of a model without units takes.
#include <ikebana/observe/measured_modules.hpp>
#include <ikebana/observe/unit_clock.hpp>

namespace ikebana::detail {

/// Tells a clock which module computes. The clock knows whether the model computes at all.
class ModuleClock final : ModuleFollower {
 public:
  ModuleClock(const MeasuredModules& modules, UnitClock& clock)
      : ModuleFollower(modules), clock_(clock) {}

 private:
  IKEBANA_INLINE Direction direction() const override;
  IKEBANA_INLINE void compute(bridge::OperatorCall& call, std::size_t module,
                              Direction direction) override;

  UnitClock& clock_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/module_clock.ipp>
#endif
