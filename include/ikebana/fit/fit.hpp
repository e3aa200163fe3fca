#pragma once
// The loop around the step: epochs, validation, callbacks, a progress bar.
#include <ikebana/fit/state_keeper.hpp>
#include <ikebana/posix/sigterm.hpp>
#include <ikebana/fit/progress.hpp>

namespace ikebana {

namespace detail {

/// Calls `f` for every batch of an epoch from the position on, until it returns false. False where
/// it did.
template <class Range, class F>
bool each_batch(Range& loader, FitState& at, F&& f) {
  auto batch = std::begin(loader);
  if constexpr (Indexed<Range>) batch += at.batch;
  for (; batch != std::end(loader); ++batch) {
    ++at.batch;
    if (!f(*batch)) return false;
  }
  return true;
}

/// Whether to go on: the user's answer, or SIGTERM.
template <class Batch>
bool is_stopped(const FitOptions<Batch>& options, const Sigterm& sigterm, History& history) {
  history.terminated = static_cast<bool>(sigterm);
  history.stopped = history.terminated || (options.stop && options.stop());
  return history.stopped;
}

/// One epoch of steps, or what a resume left of it.
template <class Trainer, class Range, class Batch, class StateKeeper>
void fit_epoch(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, FitState& at,
               StateKeeper& keeper, const Sigterm& sigterm, Progress& progress) {
  std::vector<Batch> gathered;
  auto update = [&](const auto& batch) {
    Report report = trainer.step(batch);
    at.loss_sum += report.loss();
    ++at.steps;
    progress.draw(at.epoch, report);
    if (options.on_step) options.on_step(report);
    keeper.after_step();
    return !is_stopped(options, sigterm, at.history);
  };
  auto gather = [&](auto&& batch) {
    if (options.batches_per_step == 1) return update(batch);
    gathered.push_back(batch);
    if (std::ssize(gathered) < options.batches_per_step) return true;
    return update(std::exchange(gathered, {}));
  };
  // The last group may be shorter: its divisor is its own count.
  if (each_batch(loader, at, gather) && !gathered.empty()) update(gathered);
  if (at.history.stopped) keeper.at_stop();
}

}  // namespace detail

/// Trains for some epochs, and tells `ended` what each came to. Reads each step's loss, so it waits
/// for the device once a step; write the loop around `step` where that matters.
template <class Trainer, class Range, class Batch, class Ended>
History fit(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, Ended&& ended) {
  if (options.epochs < 0 || options.batches_per_step < 1)
    throw BadValue("fit: epochs is " + std::to_string(options.epochs) + " and batches_per_step " +
                   std::to_string(options.batches_per_step) + "; give 0 or more, and 1 or more.");
  detail::FitState at;
  detail::StateKeeper keeper(trainer, loader, options, at);
  keeper.begin();
  detail::Sigterm sigterm(options.save_on_sigterm);
  Progress progress(options.progress, options.epochs, loader, options.batches_per_step);
  progress.begin_at(at.epoch, at.steps);
  while (at.epoch < options.epochs && !at.history.stopped) {
    auto begin = std::chrono::steady_clock::now();
    at.present();
    detail::fit_epoch(trainer, loader, options, at, keeper, sigterm, progress);
    Epoch& epoch = at.present();
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (epoch.steps == 0)
      throw BadBatch("fit: the loader gave no batch. Give it data, and mind drop_last.");
    if (at.history.terminated) break;
    progress.aside([&] {
      if (options.validate) epoch.validation = trainer.evaluate(options.validate, options.metrics);
      ended(epoch);
      if (options.on_epoch) options.on_epoch(epoch);
    });
    if (at.history.stopped) break;
    at.end_epoch();
    keeper.after_epoch(epoch);
    detail::is_stopped(options, sigterm, at.history);
  }
  keeper.end();
  return std::move(at.history);
}

}  // namespace ikebana
