#pragma once
// Counts the floating-point operations of a step, once for each shape of batch.
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/hooks.hpp>
#include <unordered_map>

namespace ikebana::detail {

/// The floating-point operations of a step.
struct StepFlops {
  std::int64_t flops = 0;             ///< operations of products, without recomputes
  std::int64_t recomputed = 0;        ///< operations of products in recomputes
  at::ScalarType dtype = at::kFloat;  ///< the dtype in which most of them are made
  double bound = not_given;           ///< the most per second
};

/// The operations of steps, by a hash of the shapes of their batches.
class CountedFlops {
 public:
  /// RAII: counts the operators of this thread, and of the backward that it starts.
  class Scope : bridge::OperatorMode {
   public:
    explicit Scope(StepFlops& found) : found_(found), scope_(*this) {}
    ~Scope() override;

   private:
    IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

    StepFlops& found_;
    std::unordered_map<at::ScalarType, std::int64_t> by_dtype_;
    bridge::OperatorScope<> scope_;
  };

  /// Returns null if the operations of these shapes were not counted yet. If there are too many
  /// shapes, returns the operations that were counted last.
  const StepFlops* find(std::uint64_t shapes) const {
    const auto found = known_.find(shapes);
    if (found != known_.end()) return &found->second;
    return known_.size() < most_shapes ? nullptr : &last_;
  }
  /// Keeps what was counted, if there is memory for it: the step was made already.
  void keep(std::uint64_t shapes, const StepFlops& found) noexcept;

 private:
  static constexpr std::size_t most_shapes = 256;
  std::unordered_map<std::uint64_t, StepFlops> known_;
  StepFlops last_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/counted_flops.ipp>
#endif
