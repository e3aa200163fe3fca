#pragma once
// Defines the policy Observe<RankTimes>, its mechanism, and `rank_times`, which names a slow rank.
#include <chrono>
#include <ikebana/hooks.hpp>
#include <ikebana/observe/rank_times_summary.hpp>
#include <ikebana/observe/recent.hpp>
#include <ikebana/ranks/together.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// Measures on each of several ranks how long it waits for the others in a step, so that
/// `rank_times(trainer)` can name a rank that all others wait for. A step exchanges nothing for it.
/// Not in `ikebana.hpp`: include <ikebana/observe.hpp>.
///
/// The time of a step is that from the end of one to the end of the next, loaders, callbacks and
/// validation included. Waiting is the time for which this rank's host waits for messages: for a
/// slower rank, and for the transport. The host must do the waiting, as with Gloo: under NCCL,
/// where the device waits, and with a group of ranks of your own that does not measure it
/// (`RankGroup::waited`), the first step throws BadValue. A recipe without Shard does not compile.
/// Costs two reads of the clock per step. Throws BadValue for a `warmup` below 0 and a `keep`
/// below 1.
template <>
struct Observe<RankTimes> {
  /// Steps at the beginning that are not counted, the first one apart, since they allocate, record
  /// and plan. The first step, and one after a step that threw, only begin to measure.
  std::int64_t warmup = 2;
  /// The statistics are over the last `keep` steps, of which each takes 16 bytes.
  std::int64_t keep = 1000;
};

template <>
struct Mechanism<Observe<RankTimes>> : ObserveHooks {
  using carries_out = Observe<RankTimes>;
  Observe<RankTimes> values;
  explicit Mechanism(Observe<RankTimes> v) : values(v) {}

  void attach(c10::Device, const UnitTable&) { reset(); }
  template <class Core, class Batch, class Next>
  auto around_step(Core& core, const Batch&, Next&& next) {
    auto ranks = core.ranks();
    begin_wait(ranks.data());
    auto report = next();
    end_wait(ranks.data());
    return report;
  }
  std::string describe() const;

  /// Returns the times of this rank's last steps, the oldest first; `rank_times` has the times of
  /// all ranks.
  std::vector<detail::StepWait> own() const { return recent_.in_order(); }
  /// Forgets all steps, and counts `warmup` again. Call it on all ranks.
  void reset();

 private:
  using Clock = std::chrono::steady_clock;

  /// Throws BadValue in the first step if the group cannot say how long it waits.
  void begin_wait(const RankGroup& group);
  void end_wait(const RankGroup& group);

  detail::Recent<detail::StepWait> recent_;
  std::int64_t left_out_ = 0;
  Clock::time_point last_end_;
  std::chrono::nanoseconds last_waited_{0};
  bool is_checked_ = false;
  bool follows_ = false, measures_ = false;  // the last step, and the one before it, were made
};

/// Returns how long each rank computes and waits, and names a rank that the others wait for. All
/// ranks must call it, between two steps: it exchanges their times. If some ranks make another call
/// instead, all throw BadModel, which names both; if one makes none, the others throw RankFailed
/// after the time limit. The recipe has Observe<RankTimes>.
template <class Trainer>
RankTimesSummary rank_times(Trainer& trainer) {
  const auto own = trainer.template mechanism<Observe<RankTimes>>().own();
  auto& core = detail::CoreOf<Trainer>::of(trainer);
  return detail::together(core, "rank_times", [&] {
    return detail::rank_times_summary(detail::exchanged_waits(core.ranks().data(), own));
  });
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/rank_times.ipp>
#endif
