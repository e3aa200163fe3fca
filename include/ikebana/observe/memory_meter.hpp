#pragma once
// Reads the memory of a step by phase and by unit.
#include <exception>
#include <functional>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/memory_place.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/memory_report.hpp>
#include <ikebana/run/parameter_bytes.hpp>
#include <ikebana/run/unit_nodes.hpp>
#include <memory>

namespace ikebana::detail {

class MeasuredModules;  // observe/measured_modules.hpp
class ModuleMemory;     // observe/module_memory.hpp

/// Reads a counter between phases, and before and after the forward of each unit. By unit on a CPU
/// it also receives each allocation, on the thread that makes it, so that the peak of each forward
/// and backward is known. The unit of a node follows from the time at which it was made, so nothing
/// is registered with autograd. While it is open, it is this thread's place source.
class MemoryMeter final : public bridge::AllocationObserverV2, public bridge::MemoryPlaceSource {
 public:
  MemoryMeter(c10::Device device, const UnitTable& table, std::int64_t uncounted);
  ~MemoryMeter() override;

  /// Allocates all that the report needs. `gathered()` returns the bytes of gathered parameters,
  /// which are no activations; empty if no parameters are gathered.
  void open(bool by_unit, std::function<std::int64_t()> gathered);
  bool is_open() const { return is_open_; }
  /// Ends the reading, after a step or after an exception in it.
  void close() noexcept;
  /// Returns the report. Call it after `close`. Allocates nothing.
  std::shared_ptr<MemoryReport> finish(const std::optional<std::int64_t>& cleaned_up);

  /// RAII: a part of the step. Its activations are known if it does not throw.
  class PhaseScope {
   public:
    PhaseScope(MemoryMeter& meter, Phase phase);
    ~PhaseScope();
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

   private:
    MemoryMeter& meter_;
    int exceptions_ = std::uncaught_exceptions();
  };
  /// RAII: the forward of a unit.
  class UnitScope {
   public:
    UnitScope(MemoryMeter& meter, const Unit& unit) : meter_(meter) { meter.begin_unit(unit); }
    ~UnitScope() { meter_.end_unit(); }
    UnitScope(const UnitScope&) = delete;
    UnitScope& operator=(const UnitScope&) = delete;

   private:
    MemoryMeter& meter_;
  };
  bool follows_units() const { return is_open_ && by_unit_ && phase_ == Phase::Forward; }

  /// Tells the observers of allocations which of them are parameters and gradients.
  void describe(const Masters& masters, const StepGradients& gradients) noexcept;

  IKEBANA_INLINE bridge::MemoryPlace place() const noexcept override;

 private:
  struct Heard {
    std::int64_t peak = 0;
    Phase phase = Phase::Data;
    std::size_t unit = 0;
  };

  IKEBANA_INLINE void allocated(const void*, int64_t, int64_t in_use) noexcept override;
  void freed(const void*, int64_t) noexcept override {}
  void refused(int64_t, int64_t) noexcept override {}
  void described(const void*, const char*, const char*) noexcept override {}
  /// Returns the phase of an allocation. Another thread may not read the phase of this one.
  Phase phase_of(bool is_of_step) const { return is_of_step ? phase_ : heard_.phase; }

  /// Begins to follow the units; if the model declares none, its modules.
  void follow_units();
  /// Returns the unit or module that computes now; the root in a step that is not followed.
  std::size_t present_unit() const noexcept;
  const std::string& name_of(std::size_t unit) const noexcept;
  void raise(std::size_t unit, std::int64_t in_use) noexcept;
  /// Counts the peak since the last mark for the present phase.
  void mark();
  std::int64_t without_gathered() const { return counter_.now() - (gathered_ ? gathered_() : 0); }
  void begin_forward();
  void end_forward();
  void begin_unit(const Unit& unit);
  void end_unit();

  std::size_t unit_of(const Masters& masters, std::size_t i) const noexcept;
  void describe(const at::Tensor& t, const char* kind, std::size_t unit) noexcept;

  c10::Device device_;
  const UnitTable& table_;
  std::int64_t uncounted_;
  bridge::MemoryCounter counter_{device_};
  std::shared_ptr<MemoryReport> report_;
  std::function<std::int64_t()> gathered_;
  UnitActivations activations_;
  UnitNodes nodes_;
  Heard heard_;
  Phase phase_ = Phase::Data;
  bool by_unit_ = false, is_open_ = false;
  const bridge::MemoryPlaceSource* outer_ = nullptr;
  bridge::CountingAllocatorV2* heard_by_ = nullptr;
  // These are shared pointers, since code that only destroys a meter then compiles no modules.
  std::shared_ptr<MeasuredModules> modules_;      // if the model has no units; made at first use
  std::shared_ptr<ModuleMemory> by_module_;       // while it is open
  std::vector<std::int64_t> module_activations_;  // while its modules are followed
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/memory_meter.ipp>
#endif
