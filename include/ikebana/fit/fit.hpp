#pragma once
// The loop around `step`: epochs, validation, callbacks, a progress bar, saved states.
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/fit/fit_on_ranks.hpp>
#include <ikebana/fit/progress.hpp>
#include <ikebana/fit/state_keeper.hpp>
#include <ikebana/posix/sigterm.hpp>

namespace ikebana {

namespace detail {

/// Calls `f` for every remaining batch of an epoch until it returns false. Returns false in that
/// case, else true.
template <class Range, class F>
bool each_remaining_batch(Range& loader, FitState& state, F&& f) {
  auto batch = std::begin(loader);
  if constexpr (Indexed<Range>) batch += state.batch;
  for (; batch != std::end(loader); ++batch) {
    ++state.batch;
    if (!f(*batch)) return false;
  }
  return true;
}

/// The batches of one update, which their loader must not write to before the step.
template <class Batch>
class BatchGroup {
 public:
  std::int64_t size() const { return std::ssize(batches_); }
  /// Throws BadBatch where an earlier batch was overwritten to make this one.
  void add(const Batch& batch) {
    for_each_tensor(batch, [&](const at::Tensor& t) {
      if (!t.defined() || t.layout() != at::kStrided) return;
      for (const auto& [memory, version] : tensors_)
        if (memory == t.const_data_ptr() && version.changed()) refuse();
      tensors_.emplace_back(t.const_data_ptr(), Version(t));
    });
    batches_.push_back(batch);
  }
  Microbatches<Batch> take() {
    tensors_.clear();
    return std::exchange(batches_, {});
  }

 private:
  [[noreturn]] static void refuse() {
    throw BadBatch(
        "fit: the loader wrote to the memory of a batch before the step that uses it, which takes "
        "several batches. Give each batch tensors of its own, e.g. by clone(), or leave "
        "batches_per_step at 1.");
  }
  Microbatches<Batch> batches_;
  std::vector<std::pair<const void*, Version>> tensors_;
};

/// Throws BadValue for options that no training can have.
template <class Batch>
void check_options(const FitOptions<Batch>& options) {
  if (options.epochs < 0)
    throw BadValue("fit: epochs is " + std::to_string(options.epochs) + "; it must be 0 or more.");
  if (options.batches_per_step < 1)
    throw BadValue("fit: batches_per_step is " + std::to_string(options.batches_per_step) +
                   "; it must be 1 or more.");
  if (options.early_stopping)
    check_rule(options, *options.early_stopping, "early_stopping", "EarlyStopping");
}

/// Whether this rank wants to stop.
template <class Batch>
StopWish stop_wish(const FitOptions<Batch>& options, const FitState& state,
                   const SigtermRequest& sigterm) {
  if (sigterm.received()) return StopWish::Terminated;
  const bool is_asked = options.stop && options.stop();
  return is_asked || state.stopper.stops() ? StopWish::Asked : StopWish::No;
}
/// Notes it in `history`. Returns whether training stops.
bool note_stop(StopWish wish, History& history);
/// The shapes of this rank's batches, of which it makes one of weight zero after the end of its
/// loader, while other ranks have batches.
template <class Batch>
class BatchShape {
 public:
  explicit BatchShape(bool is_needed) : is_needed_(is_needed) {}
  void take(const Batch& batch) {
    if (is_needed_ && none_.empty()) none_.push_back(without_rows(batch));
  }
  /// Calls `f(report)` for each step of the other ranks, until it returns false or none has a
  /// batch.
  template <class Trainer, class F>
  void join(Trainer& trainer, F&& f) const {
    if (!is_needed_) return;
    std::optional<Report> report;
    do report = trainer.join_step(none_);
    while (report && f(*report));
  }

 private:
  bool is_needed_;
  Microbatches<Batch> none_;
};

/// Known when it is compiled; a trainer whose type is erased may run on several.
template <class Trainer>
inline constexpr bool runs_on_one_rank = [] {
  if constexpr (requires { Trainer::one_rank(); }) return Trainer::one_rank();
  else return false;
}();

/// The steps of one epoch, or those that a resumed training still has to make of it.
template <class Trainer, class Range, class Batch, class StateKeeper>
void fit_epoch(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, FitState& state,
               StateKeeper& keeper, BatchShape<Batch>& shape, const SigtermRequest& sigterm,
               Progress& progress) {
  BatchGroup<Batch> group;
  auto after_step = [&](const Report& report) {
    state.add(report);
    progress.draw(state.epoch, report);
    if (options.on_step) options.on_step(report);
    keeper.after_step();
    return !note_stop(trainer.agree_to_stop(stop_wish(options, state, sigterm)), state.history);
  };
  auto update = [&](const auto& batch, std::int64_t batches) {
    trainer.set_position(BatchPosition{state.epoch, state.batch - batches});
    return after_step(trainer.step(batch));
  };
  auto add_to_group = [&](auto&& batch) {
    if constexpr (!runs_on_one_rank<Trainer>) shape.take(batch);
    if (options.batches_per_step == 1) return update(batch, 1);
    group.add(batch);
    if (group.size() < options.batches_per_step) return true;
    return update(group.take(), options.batches_per_step);
  };
  // The last group may hold fewer batches; the loss is divided by the count of what it holds.
  const bool has_passed = each_remaining_batch(loader, state, add_to_group);
  const std::int64_t left = group.size();
  if (has_passed && (left == 0 || update(group.take(), left))) shape.join(trainer, after_step);
  if (state.history.stopped) keeper.after_stop();
}

/// After the steps of an epoch.
template <class Trainer, class Batch, class EndEpoch>
void validate(Trainer& trainer, const FitOptions<Batch>& options, Epoch& epoch,
              EndEpoch&& end_epoch) {
  if (options.validate) epoch.validation = trainer.evaluate(options.validate, options.metrics);
  end_epoch(epoch);
  if (options.on_epoch) options.on_epoch(epoch);
}

template <class Trainer, class Range, class Batch, class EndEpoch>
History fit_epochs(Trainer& trainer, Range& loader, const FitOptions<Batch>& options,
                   EndEpoch&& end_epoch) {
  check_options(options);
  trainer.agree_to_stop(StopWish::No);  // what an earlier one wanted is over
  trainer.agree_to_stop_now(StopWish::No);
  if constexpr (!runs_on_one_rank<Trainer>) compare_fit(trainer, loader, options);
  FitState state;
  state.stopper = FitStopper(options.early_stopping);
  StateKeeper keeper(trainer, loader, options, state);
  keeper.begin();
  state.history.stopped = state.stopper.stops();  // before it was resumed
  SigtermRequest sigterm(options.save_on_sigterm);
  Progress progress(options.progress, options.epochs, loader, options.batches_per_step);
  progress.begin_at(state.epoch, state.steps);
  BatchShape<Batch> shape(trainer.world_size() > 1);
  auto make_steps = [&] {
    fit_epoch(trainer, loader, options, state, keeper, shape, sigterm, progress);
  };
  while (state.epoch < options.epochs && !state.history.stopped) {
    auto begin = std::chrono::steady_clock::now();
    state.current_epoch();
    make_steps();
    if constexpr (KeepsState<Range>)  // it was at the end of an epoch: this is its next
      if (state.batch == 0 && state.steps == 0) make_steps();
    Epoch& epoch = state.current_epoch();
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (epoch.steps == 0)
      throw BadBatch("fit: the loader gave no batch. Give it data, and check drop_last.");
    if (state.history.terminated) break;
    progress.pause([&] { validate(trainer, options, epoch, end_epoch); });
    if (state.history.stopped) break;
    state.stopper.end_epoch(epoch);
    state.begin_next_epoch();
    keeper.after_epoch(epoch);
    note_stop(trainer.agree_to_stop_now(stop_wish(options, state, sigterm)), state.history);
  }
  keeper.end();
  return std::move(state.history);
}

}  // namespace detail

/// Trains for `options.epochs` epochs and calls `end_epoch(epoch)` after each one. Waits for the
/// device where it reads losses: at the end of an epoch, for a saved state and for the progress
/// bar. Throws BadValue for options that contradict each other. On several ranks all stop after the
/// same step, at most one later than where a rank wants to, and where one throws, all do. A rank
/// whose loader gives fewer batches takes part in the remaining steps with batches of weight zero.
template <class Trainer, class Range, class Batch, class EndEpoch>
History fit(Trainer& trainer, Range& loader, const FitOptions<Batch>& options,
            EndEpoch&& end_epoch) {
  try {
    return detail::fit_epochs(trainer, loader, options, end_epoch);
  } catch (...) {
    trainer.set_position({});
    trainer.report_exception();
    throw;
  }
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit.ipp>
#endif
