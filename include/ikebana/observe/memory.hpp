#pragma once
#include <ikebana/bridge/memory.hpp>
#include <ikebana/hooks.hpp>
#include <optional>

namespace ikebana {

/// Peak bytes of tensors while a step runs, in `Report::peak_bytes`: what is allocated, the model
/// included. On CPU a counting allocator is put in front of LibTorch's for the whole process; on a
/// GPU the caching allocator's own statistics are read.
template <>
struct Observe<Memory> {};

template <>
struct Mechanism<Observe<Memory>> : Hooks {
  Observe<Memory> values;
  explicit Mechanism(Observe<Memory> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table) {
    counter_.emplace(device);
    for (const Unit& unit : table.units()) {
      for (const auto& t : unit.parameters) add_uncounted(t);
    }
    for (const auto& t : table.units()[0].module->buffers()) add_uncounted(t);
  }
  template <class Next>
  decltype(auto) around_step(Next&& next) {
    counter_->reset_peak();
    return next();
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    report.peak_bytes = counter_->peak() + before_;
  }

 private:
  /// What the model took before anyone counted.
  void add_uncounted(const at::Tensor& t) {
    if (t.is_cpu() && !bridge::counted(t)) before_ += static_cast<std::int64_t>(t.nbytes());
  }

  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t before_ = 0;
};

}  // namespace ikebana
