#pragma once
// Defines a step that is undone unless it is committed, on all ranks or on none.
#include <ikebana/core/core.hpp>
#include <ikebana/core/generators.hpp>
#include <ikebana/core/totals.hpp>
#include <ikebana/hooks/non_finite.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/ranks/step_sums.hpp>
#include <optional>

namespace ikebana::detail {

[[noreturn]] void refuse_no_unit();

/// Undoes a step that was begun and not committed: no gradient stays behind, no unit stays
/// gathered, no counter changes; buffers and random generators are as they were.
template <class Core>
class Transaction {
 public:
  explicit Transaction(Core& core) : core_(core) {
    check_recordable(core_.mechanisms.optimizer);
    core_.step.deferred.check(Core::one_rank);
    if (core_.step.is_first()) core_.check_model();
    if (core_.step.dry == nullptr) core_.mode_warning.check(*core_.units.units()[0].module);
    core_.forget_gradients();
    core_.parameters.begin_step();
    core_.mechanisms.offload.begin_step();
    core_.step.begin();
    core_.restore_point.begin(*core_.units.units()[0].module);
  }
  ~Transaction() {
    if (committed_) core_.end_step();
    else core_.abort();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Before the first forward: all ranks meet, compare what they are about to do, and add up the
  /// counts that are known. If a forward is a call of all ranks, ranks with fewer microbatches get
  /// dummies. Throws BadBatch if nothing is counted, and AllRanksEnded if no rank has a batch.
  template <class Microbatches>
  void open(Totals& totals, [[maybe_unused]] Microbatches& microbatches) {
    std::uint64_t plans = core_.mechanisms.checkpoint.usable_plans(microbatches);
    if constexpr (!Core::one_rank) {
      LoopEnd& end = core_.loop_end;
      core_.mechanisms.shard.open_step();
      StepOpening opening{.step = core_.step.attempts,
                          .microbatches = static_cast<std::int64_t>(microbatches.own),
                          .recipe = core_.values_of_step(),
                          .stop = end.of_this_rank,
                          .batch = !end.has_ended         ? HasBatch::Yes
                                   : microbatches.empty() ? HasBatch::Never
                                                          : HasBatch::Ended,
                          .generators = generators_.emplace(core_.device).position(),
                          .process = RankGenerators::process(),
                          .calls = core_.rank_calls->count(),
                          .plans = plans,
                          .instructions = instructions(),
                          .counts = totals.counts()};
      auto ranks = core_.ranks();
      exchange_opening(ranks.data(), opening, [&] { return core_.lines_of_step(); });
      core_.compared.note_equal();
      end.of_all_ranks = opening.stop;
      plans = opening.plans;
      use_instructions(opening.instructions);
      if (opening.microbatches == 0) throw AllRanksEnded();
      if (opening.same_generators) generators_->derive(ranks.data().rank());
      core_.step.own_microbatches = microbatches.own;
      if (ranks.slices().size() > 1 || opening.calls > 0)
        microbatches.fill(static_cast<std::size_t>(opening.microbatches));
    }
    totals.check_counts();
    core_.mechanisms.checkpoint.begin_plan(core_, plans);
  }
  /// After the last backward: adds up over ranks what the update depends on, the terms of the loss
  /// and the norm of slices, in one exchange for each group.
  void close(Totals& totals, StepGradients& gradients) {
    if constexpr (!Core::one_rank) {
      auto ranks = core_.ranks();
      core_.mechanisms.clip.close_step(gradients, ranks);
      StepSums sums;
      if (gradients.squared_norm.defined()) sums.slices.push_back(gradients.squared_norm);
      totals.add_to(sums.data);
      const bool finite_here = totals.is_finite();
      sum_over(ranks, sums);
      if (gradients.squared_norm.defined()) gradients.squared_norm = sums.slices[0];
      totals.take(sums.data);
      if (!totals.is_finite())  // all ranks know that
        totals.value().where = ranks_where_not(ranks.data(), finite_here);
    }
  }
  /// It is called before `prepare`. `found_inf` then says all that is known of the step. An
  /// optimizer that declares nothing is given the true gradients, and a finite learning rate.
  /// Throws BadModel if the recipe works unit by unit and the first step ran no unit.
  void begin_update(const Masters& masters, StepGradients& gradients) {
    settle_finite_checks(gradients, core_.step.deferred);
    check_rate();
    core_.update.begin(core_.mechanisms.optimizer, masters, gradients);
    if constexpr (Core::per_unit)
      if (core_.step.is_first() && !core_.step.unit_was_run) refuse_no_unit();
  }
  /// Calls the optimizer's update, unless the host knows that the step is rejected; on a device,
  /// the update obeys the flag. If it throws, what it changed is put back. Returns true if it was
  /// called.
  bool update(const Masters& masters, StepGradients& gradients) {
    if (core_.step.dry != nullptr && core_.step.dry->ends_at_update()) throw DryStepEnded();
    const bool rejects = rejected(gradients);
    if (rejects) core_.restore_point.put_back_non_finite();
    if constexpr (!update_may_throw) agree(rejects, gradients);
    if (!rejects) core_.update(core_.mechanisms.optimizer, masters, gradients);
    if constexpr (update_may_throw) agree(rejects, gradients);  // it can still be undone
    return !rejects;
  }
  void commit() noexcept {
    committed_ = true;
    ++core_.step.attempts, core_.step.position.reset();
    if (generators_) generators_->finish();
  }

 private:
  using Optimizer = std::decay_t<decltype(std::declval<Core&>().mechanisms.optimizer)>;
  static constexpr bool update_may_throw = Core::update_may_throw;

  /// Makes sure that all ranks make the update, or no rank does; called between the last `prepare`
  /// and the commit. The order of units is compared only if parameters are cut: other ranks may
  /// have different numbers of microbatches.
  void agree(bool rejects, const StepGradients& gradients) {
    if constexpr (!Core::one_rank) {
      auto ranks = core_.ranks();
      const bool are_cut = ranks.slices().size() > 1;
      const std::uint64_t order = are_cut ? core_.parameters.order_of_units() : 0;
      detail::agree(ranks.data(), {rejects, order, gradients.hash_of_indices()});
    }
  }
  /// Returns a bit for each mechanism, which says whether it has instructions for the other ranks.
  std::uint64_t instructions() {
    std::uint64_t all = 0, bit = 1;
    core_.mechanisms.each([&](auto& mechanism) {
      if (mechanism.has_instructions()) all |= bit;
      bit <<= 1;
    });
    return all;
  }
  void use_instructions(std::uint64_t on_all_ranks) {
    core_.mechanisms.each([&](auto& mechanism) {
      mechanism.use_instructions((on_all_ranks & 1) != 0);
      on_all_ranks >>= 1;
    });
  }
  /// Throws BadValue for a rate that is not finite. The library's optimizers check their rates
  /// themselves.
  void check_rate() const {
    if constexpr (!takes_divisor<Optimizer>)
      if (const double lr = core_.mechanisms.schedule.rate(core_.mechanisms.optimizer.base_lr(),
                                                           core_.step.attempts);
          !std::isfinite(lr))
        throw BadValue("optimizer: the schedule makes the lr " + c10::str(lr) +
                       "; it must be finite.");
  }

  Core& core_;
  std::optional<RankGenerators> generators_;  // if there are several ranks
  bool committed_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/transaction.ipp>
#endif
