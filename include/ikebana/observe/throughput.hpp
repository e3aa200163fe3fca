#pragma once
// Defines the policy Observe<Throughput> and its mechanism.
#include <chrono>
#include <ikebana/detail/batch_wait.hpp>
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/observe/counted_flops.hpp>
#include <ikebana/observe/recent.hpp>

namespace ikebana {

/// Reports items per second, floating-point operations per second, and their share of the most that
/// this machine can multiply, in `Report::throughput`. Not in `ikebana.hpp`: include
/// <ikebana/observe.hpp>.
///
/// The operations are counted in the first step for each shape of batch, which therefore takes
/// longer, by about two microseconds per operator. If the shape is one of more than 256, or the
/// model computes something else for the same shape, the numbers of the counted step are
/// reported.
/// Under `Capture` they are counted before anything is replayed. On a CPU the time is that of the
/// step and of waiting for its batch. An accelerator computes behind the host, so there it is the
/// mean from the end of one step to the end of the next, over `window` steps, all that lies between
/// them included. Costs a hash of the batch's shapes per step. Throws BadValue for a `window` below
/// 1.
template <>
struct Observe<Throughput> {
  /// The most operations per second. Without a value, `matmul_bound` measures it once in the
  /// process, for the dtype in which most of the step's operations are made.
  std::optional<double> bound = {};
  std::int64_t window = 10;  ///< on an accelerator, the steps over which the time is averaged
};

template <>
struct Mechanism<Observe<Throughput>> : ObserveHooks {
  using carries_out = Observe<Throughput>;
  Observe<Throughput> values;
  explicit Mechanism(Observe<Throughput> v) : values(v) {}

  void attach(c10::Device device, const UnitTable&);
  template <class Core, class Batch, class Next>
  auto around_step(Core&, const Batch& batch, Next&& next) {
    const std::uint64_t shapes = shapes_hash(batch);
    const detail::StepFlops* known = flops_.find(shapes);
    if (known != nullptr) return timed(next, *known);
    detail::StepFlops counted;
    auto report = [&] {
      const detail::CountedFlops::Scope scope(counted);
      return timed(next, counted);
    }();
    report.throughput->bound = counted.bound = bound_of(counted);
    if (report.undone.value_or(0) == 0) flops_.keep(shapes, counted);
    return report;
  }
  std::string describe() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// Makes the step, and adds its throughput to its report. `flops` is read afterwards.
  template <class Next>
  auto timed(Next&& next, const detail::StepFlops& flops) {
    const auto begin = Clock::now();
    const double waited = waited_before(begin);
    auto report = next();
    add(report, flops, begin, waited);
    return report;
  }
  /// Returns the seconds for which the loop waited for this batch, since the step before.
  double waited_before(Clock::time_point begin);
  void add(Report& report, const detail::StepFlops& flops, Clock::time_point begin, double waited);
  double bound_of(const detail::StepFlops& flops) const;

  template <class Batch>
  static std::uint64_t shapes_hash(const Batch& batch) {
    std::uint64_t hash = detail::fnv1a_start;
    auto add = [&](const at::Tensor& t) {
      if (!t.defined()) return;
      for (const std::int64_t size : t.sizes())
        hash = detail::fnv1a(hash, static_cast<std::uint64_t>(size));
      hash = detail::fnv1a(hash, ~static_cast<std::uint64_t>(t.scalar_type()));
    };
    if constexpr (detail::Batches<const Batch>)
      for (const auto& one : batch) detail::for_each_tensor(one, add);
    else detail::for_each_tensor(batch, add);
    return hash;
  }

  c10::Device device_ = at::kCPU;
  detail::CountedFlops flops_;
  detail::BatchWaits waits_;
  detail::Recent<Clock::time_point> ends_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/throughput.ipp>
#endif
