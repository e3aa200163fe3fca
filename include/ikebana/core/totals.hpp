#pragma once
// Defines the divisor of a loss: its count over all microbatches and ranks. No other code divides.
#include <ikebana/hooks.hpp>
#include <span>

namespace ikebana {

/// The sums of a step's loss, and the counts that they are divided by. Counts are known before the
/// first backward if the model or the objective has `count(batch)`, or if there is one microbatch
/// on one rank; otherwise sums are added up, and the gradients are divided once at the end.
/// `count(batch)` is compared with the counts of the losses in every step that needs it, and in the
/// first; counts that only a device or other ranks know, in the first and every hundredth.
class Totals {
 public:
  template <class Objective, class Model, class Microbatches, class Ranks>
  Totals(Objective& objective, Model& model, const Microbatches& microbatches, const Ranks& ranks,
         std::int64_t steps_before)
      : sampled_(steps_before % 100 == 0 || detail::recording()),
        alone_(ranks.data().size() == 1),
        single_(std::size(microbatches) == 1 && alone_) {
    if constexpr (requires { objective.count(model, *std::begin(microbatches)); }) {
      if (single_ && steps_before != 0) return;  // the loss itself has the count
      for (const auto& microbatch : microbatches) expect(objective.count(model, microbatch));
      if constexpr (requires { microbatches.has_own(); })
        for (Count& count : known_)
          if (!microbatches.has_own()) count = count.zero();  // a dummy counts no items
    }
  }
  /// Returns the counts that are known before backward. With several ranks the caller adds them up
  /// over all ranks before the first `add`.
  std::span<Count> counts() { return {known_.data(), known_.size()}; }
  /// Throws BadBatch if nothing is counted on any rank.
  void check_counts() const;

  /// Adds a microbatch's sums, and sets the `roots` that its backward starts from. Their gradients
  /// are divided by the totals if these are known already.
  void add(const Loss& loss, Roots& roots);

  /// With several ranks: adds to `sums` this rank's sums, and the counts that are not known yet or
  /// are compared in this step. `take` then takes the sums over all ranks.
  void add_to(std::vector<at::Tensor>& sums) const;
  void take(const std::vector<at::Tensor>& sums);
  /// Returns false if the host can read the sums so far, and one is not finite.
  bool is_finite() const;
  /// After the last backward: divides the gradients by the counts that they are not divided by yet,
  /// and compares `count(batch)` with the counts of the losses.
  void finish(StepGradients& gradients, detail::DeferredCheck& deferred);

  /// Returns the loss; complete after `finish`.
  LossValue& value() { return value_; }

 private:
  void expect(const Count& count) { expect(0, count); }
  void expect(const std::vector<Count>& counts);
  void expect(std::size_t i, const Count& count);
  [[noreturn]] static void refuse_known(const Count& count);
  static void refuse_zero(const Count& count);
  static void check_sum(const std::string& name, const at::Tensor& sum);
  /// Backward starts with scale / count, which must not become 0 or infinite in the sum's dtype.
  static void check_seed(const std::string& name, const Count& total, double scale,
                         at::ScalarType type);
  [[noreturn]] static void refuse_unequal_late(const std::string& name);

  bool late() const { return known_.empty() && !single_; }
  /// Returns true if this step compares `count(batch)` with the counts of the losses.
  bool compares() const { return !known_.empty() && (alone_ || sampled_); }
  /// `count(batch)` may return one number for all terms, or one per term.
  const Count& known(std::size_t i) const { return known_.size() == 1 ? known_[0] : known_.at(i); }
  const Count& divisor(std::size_t i, const Count& own) const;
  void check_number_of_counts(std::size_t terms) const;
  void remember(std::size_t i, LossValue::Part now);
  [[noreturn]] static void refuse_changed_name(const std::string& name, const std::string& before);
  [[noreturn]] static void refuse_changed_scale(const std::string& name, double before, double now);
  void check_known(std::size_t i, detail::DeferredCheck& deferred) const;
  [[noreturn]] static void refuse_count(std::size_t i, const std::string& both);
  /// Sums of weights may be rounded; numbers of items below 2^24 may not.
  static bool agree(double a, double b);
  /// Checks on a device what `is_possible` and `refuse_zero` check on the host.
  static void check_on_device(const LossValue::Part& part, detail::DeferredCheck& deferred);

  bool sampled_;                      // this step compares what the host cannot read
  bool alone_, single_;               // whether there is one rank, and whether there is one
                                      // microbatch
  c10::SmallVector<Count, 1> known_;  // one per term, or one for all
  LossValue value_;                   // with the counts so far
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/totals.ipp>
#endif
