#pragma once
// The policy Accumulate<Fit<>> and its mechanism: microbatches that fit into memory.
#include <ikebana/accumulate/fit_attempts.hpp>
#include <ikebana/accumulate/fit_plan.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// As many microbatches as a step needs to fit into memory: if memory runs out, the step is undone
/// and repeated from the same batch, with twice as many microbatches of half the rows. The result
/// has the bits of Accumulate<N> with the final number, which `Report::microbatches` holds. Each
/// batch of a range is cut, too. After `quiet_steps` steps that fitted, it tries half as many,
/// unless the measured bytes say that this would not fit; each failed try doubles this number of
/// steps. Evaluations have a separate number. All ranks have the same number: if memory runs out on
/// one rank, the step is undone and repeated on all. Cost: the time of each attempt that is undone,
/// and nothing measurable in steps that fit. On a CPU without a `limit` Linux may end the process
/// instead of refusing memory. Throws OutOfMemory if `max` microbatches, or microbatches of one
/// row, do not fit, and BadValue for values that cannot be used.
template <>
struct Accumulate<Fit<>> {
  std::int64_t max = 0;    ///< the most microbatches of a batch, 1 or more
  std::int64_t limit = 0;  ///< most bytes in use on a CPU, as MemoryLimit counts; 0: no limit
  std::int64_t quiet_steps = 100;  ///< steps that fit before fewer microbatches are tried; 0: never
};
/// Accumulate<Fit<>> with the maximum in the type: Accumulate<Fit<64>>.
template <FitCount Max>
struct Accumulate<Max> {
  std::int64_t limit = 0;          ///< as that of Accumulate<Fit<>>
  std::int64_t quiet_steps = 100;  ///< as that of Accumulate<Fit<>>
};

template <FitCount Max>
struct Mechanism<Accumulate<Max>> : AccumulateHooks {
  using carries_out = Accumulate<Max>;
  static constexpr bool fits_memory = true;
  Accumulate<Max> values;
  explicit Mechanism(Accumulate<Max> v) : values(v) { check_numbers(); }

  void attach(c10::Device device, const UnitTable&) {
    memory_.attach(device, values.limit);
    memory_.check(values.limit);
  }
  template <class Core, class Batch, class Next>
  Report around_step(Core& core, const Batch& batch, Next&& next) {
    start(core);
    const detail::FitPlan former = plan_;
    try {
      const bridge::SharedMemoryLimit limit(values.limit);
      consider_fewer(core);
      return fitted(core, batch, next);
    } catch (...) {
      failed_ = plan_.microbatches;
      plan_ = former;
      throw;
    }
  }
  /// Gives the next step as many microbatches as the last failed attempt had. A copy of this
  /// process calls it to explain the error of a step.
  void repeat_failed() noexcept { plan_.microbatches = std::max<std::int64_t>(failed_, 1); }
  /// Batches are checked and viewed, but not copied.
  template <class Batch>
  std::vector<Batch> split(const Batch& batch) {
    return cut(batch, plan_.microbatches);
  }
  template <class Core, class Batch, class Next>
  void around_evaluated(Core& core, const Batch* batch, Next&& next) {
    check_numbers();
    memory_.check(values.limit);
    plan_.evaluated = std::min(plan_.evaluated, max());
    const bridge::SharedMemoryLimit limit(values.limit);
    const bool alone = core.ranks().slices().size() == 1;
    detail::Tried tried{"evaluate", core.step.attempts, versions_of(batch)};
    while (const auto error = failure(core, alone, [&] {
             const auto parts = static_cast<std::size_t>(plan_.evaluated);
             next(batch ? cut(*batch, plan_.evaluated) : std::vector<Batch>(), parts);
           })) {
      const std::int64_t from = plan_.evaluated;
      plan_.evaluated = more(core, batch, from, alone, tried, error);
      memory_.end_failed();
      history_.add({tried.step, from, plan_.evaluated, memory_.used(), /*in_evaluation=*/true});
    }
  }
  /// Makes the ranks agree on one number of parts at the end of an evaluation.
  template <class Core>
  void end_evaluation(Core& core) {
    if constexpr (!Core::one_rank)
      if (auto ranks = core.ranks(); ranks.data().size() > 1)
        plan_.evaluated =
            detail::most_of(ranks.data(), "the number of parts of an evaluation", {plan_.evaluated})
                .microbatches;
  }

  /// Returns the most bytes that a step may have in use; 0: no limit.
  std::int64_t memory_limit() const { return values.limit; }
  /// Returns the number of microbatches of each batch of the next step, which is the number of
  /// parts of each batch of an evaluation.
  std::int64_t microbatches() const { return plan_.microbatches; }
  std::int64_t evaluation_parts() const { return plan_.evaluated; }
  /// Returns the last changes of these numbers, at most 256, and the number of all changes.
  const std::vector<FitChange>& history() const { return history_.changes(); }
  std::int64_t changes() const { return history_.count(); }
  /// Steps that were undone within ten steps after another undone step.
  std::int64_t undone_soon() const { return history_.soon(); }

  std::string describe() const {
    return "max=" + std::to_string(max()) +
           (values.limit > 0 ? ", limit=" + std::to_string(values.limit) : "") +
           ", microbatches=" + std::to_string(plan_.microbatches);
  }
  void state(Archive& archive, const Masters&) {
    static constexpr NumberRange from_one{1, 0x1p53, true, "a whole number above 0"};
    static constexpr NumberRange tries{0, detail::FitPlan::most_failures, true,
                                       "a whole number from 0 to 20"};
    std::int64_t on_trial = plan_.on_trial;
    archive.number("microbatches", plan_.microbatches, &from_one);
    archive.number("evaluation_parts", plan_.evaluated, &from_one);
    archive.number("quiet_steps", plan_.quiet, &count_range);
    archive.number("failed_tries", plan_.failures, &tries);
    archive.number("on_trial", on_trial, &count_range);
    archive.number("used_bytes", plan_.used, &count_range);
    archive.number("failed_bytes", plan_.failed, &count_range);
    plan_.on_trial = on_trial != 0;
    knows_base_ = knows_base_ && !archive.loading();
  }

 private:
  template <class Core>
  void start(Core& core) {
    check_numbers();
    if constexpr (!Core::one_rank) core.mechanisms.shard.meet_again();
    memory_.check(values.limit);
    plan_.microbatches = std::min(plan_.microbatches, max());
    if (!std::exchange(knows_base_, true)) plan_.failed_base = memory_.now();
  }
  /// Tries half as many microbatches, on all ranks, when it is time to.
  template <class Core>
  void consider_fewer(Core& core) {
    if (!plan_.may_shrink(values.quiet_steps)) return;
    bool fits = plan_.should_fit(memory_.now(), memory_.bound(values.limit));
    if constexpr (!Core::one_rank)
      fits =
          detail::most_of(core.ranks().data(), "a step in fewer microbatches", {.changed = !fits})
              .changed == 0;
    if (!fits) return plan_.wait_again();
    const detail::FitPlan former = plan_;
    plan_.shrink();
    history_.add({core.step.attempts, former.microbatches, plan_.microbatches, former.used});
  }
  template <class Core, class Batch, class Next>
  Report fitted(Core& core, const Batch& batch, Next& next) {
    const bool alone = core.ranks().data().size() == 1;
    detail::Tried tried{"step", core.step.attempts, versions_of(&batch)};
    std::optional<Report> report;
    for (std::int64_t undone = 0;; ++undone) {
      if (plan_.microbatches > 1) memory_.begin();
      const auto error = failure(core, alone, [&] { report.emplace(next()); });
      if (!error) return made(tried.step, *report, undone), std::move(*report);
      const std::int64_t from = plan_.microbatches,
                         to = more(core, &batch, from, alone, tried, error);
      memory_.end_failed();
      plan_.grow(to, memory_.used(), memory_.base());
      history_.add({tried.step, from, to, memory_.used()});
    }
  }
  /// Calls `attempt`. Returns its exception if it ran out of memory, on this or another rank, and
  /// all ranks repeat it; throws any other exception.
  template <class Core, class Attempt>
  std::exception_ptr failure(Core& core, bool alone, const Attempt& attempt) {
    const std::int64_t before = core.step.attempts;
    const detail::Repeats repeats(core.mechanisms.shard, !alone);
    try {
      attempt();
      return nullptr;
    } catch (...) {
      const bool is_ours =
          alone ? bridge::is_present_out_of_memory() : core.mechanisms.shard.ran_out_of_memory();
      if (!is_ours || core.step.attempts != before) throw;
      return std::current_exception();
    }
  }
  /// Returns the number of microbatches of the next attempt, on all ranks. Throws if more cannot
  /// help.
  template <class Core, class Batch>
  std::int64_t more(Core& core, const Batch* batch, std::int64_t from, bool alone,
                    detail::Tried& tried, const std::exception_ptr& error) {
    tried.add(from);
    const std::int64_t wanted = std::min(2 * from, max());
    detail::FailedAttempt last{from, batch ? detail::parts_of(*batch, wanted, !alone) : 0,
                               tried.versions != versions_of(batch)};
    if constexpr (!Core::one_rank) {
      if (!alone) {
        core.mechanisms.shard.meet_again();
        last = detail::most_of(core.ranks().data(), "an attempt in more microbatches", last);
      }
    }
    if (last.changed != 0) detail::throw_changed(error, tried);
    const std::int64_t to = std::min({2 * last.microbatches, max(), last.parts});
    if (to <= last.microbatches)
      detail::throw_too_large(error, tried, last.microbatches >= max(), values.limit);
    return to;
  }
  void made(std::int64_t step, Report& report, std::int64_t undone) noexcept {
    report.undone = undone;
    plan_.end_step(plan_.microbatches > 1 ? memory_.used() : 0, values.quiet_steps);
    if (undone > 0 && history_.add_undone(step)) warn();
  }
  void warn() noexcept {
    if (std::exchange(has_warned_, true)) return;
    try {
      TORCH_WARN("Accumulate<Fit<>>: two steps out of ten ran out of memory and were made again, ",
                 "which costs the time of each attempt. Write Accumulate<", plan_.microbatches,
                 ">, or batches that differ less in size.");
    } catch (const std::exception&) {  // the step was made: nothing may throw
    }
  }
  template <class Batch>
  std::vector<Batch> cut(const Batch& batch, std::int64_t microbatches) const {
    if (microbatches == 1) return rows(batch), std::vector<Batch>{batch};
    return ikebana::split(batch, microbatches);
  }
  template <class Batch>
  static std::uint64_t versions_of(const Batch* batch) {
    return batch != nullptr ? detail::sum_of_versions(*batch) : 0;
  }
  std::int64_t max() const {
    if constexpr (Max == Fit<>) return values.max;
    else return static_cast<std::int64_t>(Max);
  }
  void check_numbers() const {
    auto refuse = [](const char* field, std::int64_t value, const char* cure) {
      throw BadValue("Accumulate<Fit<>>: " + std::string(field) + " is " + std::to_string(value) +
                     "; it must be " + cure);
    };
    if (max() < 1) refuse("max", max(), "1 or more, e.g. Accumulate<Fit<>>{.max = 64}.");
    if (values.quiet_steps < 0) refuse("quiet_steps", values.quiet_steps, "0 or more.");
  }

  detail::FitPlan plan_;
  detail::FitHistory history_;
  detail::FitMemory memory_;
  std::int64_t failed_ = 1;  // microbatches of the attempt that failed last
  bool knows_base_ = true;   // failed_base was measured in this process
  bool has_warned_ = false;
};

}  // namespace ikebana
