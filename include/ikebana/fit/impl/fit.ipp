#pragma once
#include <chrono>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/fit.hpp>
#include <ikebana/fit/fit_on_ranks.hpp>
#include <ikebana/fit/progress.hpp>
#include <ikebana/fit/state_keeper.hpp>
#include <ikebana/fit/validation_rule.hpp>
#include <ikebana/posix/sigterm.hpp>

namespace ikebana::detail {

IKEBANA_INLINE GroupTensors::GroupTensors() = default;
IKEBANA_INLINE GroupTensors::~GroupTensors() = default;

IKEBANA_INLINE void GroupTensors::add(const at::Tensor& t) {
  if (!t.defined() || t.layout() != at::kStrided) return;
  for (const auto& [memory, version] : all_)
    if (memory == t.const_data_ptr() && version.changed())
      throw BadBatch(
          "fit: the loader wrote to the memory of a batch before the step that uses it, which "
          "takes several batches. Give each batch tensors of its own, e.g. by clone(), or leave "
          "batches_per_step at 1.");
  all_.emplace_back(t.const_data_ptr(), Version(t));
}

IKEBANA_INLINE void GroupTensors::clear() { all_.clear(); }

/// Throws BadValue for invalid options.
inline void check_options(const FitSettings& options) {
  if (options.epochs < 0)
    throw BadValue("fit: epochs is " + std::to_string(options.epochs) + "; it must be 0 or more.");
  if (options.batches_per_step < 1)
    throw BadValue("fit: batches_per_step is " + std::to_string(options.batches_per_step) +
                   "; it must be 1 or more.");
  if (options.early_stopping)
    check_rule(options, *options.early_stopping, "early_stopping", "EarlyStopping");
}

/// Returns whether this rank wants to stop.
inline StopWish stop_wish(const FitSettings& options, const FitState& state,
                          const SigtermRequest& sigterm) {
  if (sigterm.received()) return StopWish::Terminated;
  const bool is_asked = options.stop && options.stop();
  return is_asked || state.stopper.stops() ? StopWish::Asked : StopWish::No;
}

IKEBANA_INLINE bool note_stop(StopWish wish, History& history) {
  history.terminated = wish == StopWish::Terminated;
  history.stopped = wish != StopWish::No;
  return history.stopped;
}

/// The loop over epochs, after the trainer's state was restored.
class FitLoop {
 public:
  FitLoop(FitCalls& calls, const FitSettings& options, FitState& state, StateKeeper& keeper)
      : calls_(calls),
        options_(options),
        state_(state),
        keeper_(keeper),
        sigterm_(options.save_on_sigterm),
        progress_(options.progress, options.epochs, calls.size(), options.batches_per_step) {
    progress_.begin_at(state.epoch, state.steps);
  }
  void run() {
    while (state_.epoch < options_.epochs && !state_.history.stopped) {
      Epoch& epoch = make_epoch();
      if (state_.history.terminated) break;
      progress_.pause([&] {
        calls_.validate(epoch);
        calls_.end_epoch(epoch);
        if (options_.on_epoch) options_.on_epoch(epoch);
      });
      if (state_.history.stopped) break;
      state_.stopper.end_epoch(epoch);
      state_.begin_next_epoch();
      keeper_.after_epoch(epoch);
      note_stop(calls_.agree_to_stop_now(wish()), state_.history);
    }
  }

 private:
  StopWish wish() const { return stop_wish(options_, state_, sigterm_); }
  bool after_step(const Report& report) {
    state_.add(report);
    progress_.draw(state_.epoch, report);
    if (options_.on_step) options_.on_step(report);
    keeper_.after_step();
    return !note_stop(calls_.agree_to_stop(wish()), state_.history);
  }
  void make_steps() {
    calls_.make_steps(
        {state_.epoch, state_.batch, [this](const Report& report) { return after_step(report); }});
    if (state_.history.stopped) keeper_.after_stop();
  }
  Epoch& make_epoch() {
    auto begin = std::chrono::steady_clock::now();
    state_.current_epoch();
    make_steps();
    if (calls_.keeps_state())  // it was at the end of an epoch, so this is its next epoch
      if (state_.batch == 0 && state_.steps == 0) make_steps();
    Epoch& epoch = state_.current_epoch();
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (epoch.steps == 0)
      throw BadBatch("fit: the loader gave no batch. Give it data, and check drop_last.");
    return epoch;
  }

  FitCalls& calls_;
  const FitSettings& options_;
  FitState& state_;
  StateKeeper& keeper_;
  SigtermRequest sigterm_;
  Progress progress_;
};

inline History fit_epochs(FitCalls& calls, const FitSettings& options) {
  check_options(options);
  calls.agree_to_stop(StopWish::No);  // ends the wish of an earlier `fit`
  calls.agree_to_stop_now(StopWish::No);
  compare_fit(calls, options);
  FitState state;
  state.stopper = FitStopper(options.early_stopping);
  StateKeeper keeper(calls, options, state);
  keeper.begin();
  state.history.stopped = state.stopper.stops();  // it may have stopped before it was resumed
  FitLoop loop(calls, options, state, keeper);
  loop.run();
  keeper.end();
  return std::move(state.history);
}

IKEBANA_INLINE History run_fit(FitCalls& calls, const FitSettings& options) {
  try {
    return fit_epochs(calls, options);
  } catch (...) {
    calls.report_exception();
    throw;
  }
}

}  // namespace ikebana::detail
