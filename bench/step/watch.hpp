#pragma once
// Defines a policy that measures the memory of a step between forward and backward.
#include <ikebana.hpp>
#include <ikebana/bridge/memory_counter.hpp>

#include "worker.hpp"

namespace bench {

/// On the CPU, unless `device` names another one.
struct Watch {
  using axis = ikebana::axis::observe;
  c10::Device device = at::kCPU;
  std::shared_ptr<Bytes> bytes = std::make_shared<Bytes>();
};

}  // namespace bench

template <>
struct ikebana::Mechanism<bench::Watch> : ikebana::ObserveHooks {
  bench::Watch values;
  explicit Mechanism(bench::Watch v) : values(std::move(v)), counter_(values.device) {}

  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Forward) counter_.reset_peak(), begin_ = counter_.now();
    if (phase == Phase::Backward) values.bytes->kept = counter_.now() - begin_;
    return next();
  }
  void end_step(const StepGradients&, Report&) noexcept {
    values.bytes->peak = counter_.peak() - begin_;
  }

 private:
  bridge::MemoryCounter counter_;
  std::int64_t begin_ = 0;
};
