#pragma once
// Profiles a training in one call.
#include <ikebana/profiling/profiled_training.hpp>
#include <ikebana/ranks/together.hpp>

namespace ikebana {

/// The options of `profile_run`.
struct ProfileRunOptions {
  std::int64_t warmup = 5;  ///< steps before the first measurement
  std::int64_t steps = 30;  ///< steps of the baseline, and steps in which units are measured
  std::int64_t operator_steps = 3;  ///< steps in which each operator is recorded
  bool restore = true;              ///< afterwards trainer and loader are as before
  /// Whether advice that can be followed while the program runs is tried: the number of threads, of
  /// workers, and flushing denormals. Each takes another `warmup + steps` steps. For one rank.
  bool tries_advice = false;
};

namespace detail {

/// Profiles a training whose types are erased.
RunProfile profile_training(ProfiledTraining& training, const Conditions& conditions,
                            const std::filesystem::path& folder, const ProfileRunOptions& options);

}  // namespace detail

/// Profiles a training: makes about `warmup + 2 * steps + 10` steps over the loader's batches, and
/// returns what they cost and what to change. First the training as it is, with its phases; then
/// its units; then its operators; then its memory: each in steps of its own, so that no measurement
/// disturbs another. Steps are made in earnest; with `restore`, which keeps a copy of the state in
/// memory, the trainer has afterwards every bit that it had before, and a DataLoader its position;
/// a loop over the loader that runs meanwhile ends with an error at its next batch.
///
/// The recipe needs `Observe<Phases>`. Units are measured if it has `Observe<EachUnit>`, which is
/// paused otherwise, and memory if it has `Observe<Memory>`. These observers forget the times that
/// they had measured before. All of several ranks must call it, and each profiles itself; if some
/// make another call, all throw BadModel. After an exception their trainers are not restored.
///
/// If `folder` is given, it writes there `report.html`, `report.md`, tables as CSV, plots as SVG,
/// `conditions.json` and a Chrome trace (docs/profiling.md); on several ranks each into a folder
/// `rank0` within it. Throws BadValue for numbers below 1, for a loader without a batch, and for
/// `tries_advice` on several ranks;
/// FileFailed if the folder cannot be written to, before any step, and what a step throws.
template <class Trainer, class Loader>
RunProfile profile_run(Trainer& trainer, Loader&& loader, std::filesystem::path folder = {},
                       const ProfileRunOptions& options = {}) {
  // A rank that calls alone would take part in the steps of the others, and then go back alone.
  detail::together(detail::CoreOf<Trainer>::of(trainer), "profile_run", [] {});
  auto& range = detail::range_of(loader);
  detail::ProfiledTrainingOf<Trainer, std::remove_reference_t<decltype(range)>> training(trainer,
                                                                                         range);
  if (!folder.empty() && trainer.world_size() > 1)
    folder /= "rank" + std::to_string(trainer.rank());
  return detail::profile_training(training, conditions(trainer.device()), folder, options);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/profile_run.ipp>
#endif
