#pragma once
// Measures the memory of each module of a model without units.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/observe/made_memory.hpp>
#include <ikebana/observe/measured_modules.hpp>

namespace ikebana::detail {

/// Knows which module computes in the present phase of a step, and which memory the forward of each
/// module has made.
class ModuleMemory final : ModuleFollower {
 public:
  /// `phase`, which the caller changes, is the present phase.
  ModuleMemory(const MeasuredModules& modules, const Phase& phase)
      : ModuleFollower(modules), phase_(phase), made_(modules.size()) {}
  /// Returns the module whose operator computes; 0: none does, or it is the model's.
  std::size_t present() const noexcept { return present_; }
  /// Returns the bytes that each module's forward has made and that still exist. Later forwards are
  /// not followed.
  std::vector<std::int64_t> end_forward();

 private:
  IKEBANA_INLINE Direction direction() const override;
  IKEBANA_INLINE void compute(bridge::OperatorCall& call, std::size_t module,
                              Direction direction) override;

  const Phase& phase_;
  std::size_t present_ = 0;
  bool has_ended_ = false;
  std::vector<MadeMemory> made_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/module_memory.ipp>
#endif
