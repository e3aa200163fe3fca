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

/// Throws BadValue for a number below `least`.
inline void check_at_least(std::int64_t least, const char* option, std::int64_t value) {
  if (value < least)
    throw BadValue("fit: " + std::string(option) + " is " + std::to_string(value) +
                   "; it must be " + std::to_string(least) + " or more.");
}

/// Throws BadValue for invalid options.
inline void check_options(const FitSettings& options) {
  auto refuse_if = [](bool wrong, const char* why) {
    if (wrong) throw BadValue(std::string("fit: ") + why);
  };
  check_at_least(0, "epochs", options.epochs.value_or(0));
  check_at_least(0, "max_steps", options.max_steps.value_or(0));
  check_at_least(1, "batches_per_step", options.batches_per_step);
  check_at_least(0, "validate_every", options.validate_every);
  check_at_least(1, "log_every", options.log_every);
  refuse_if(options.validates_by_steps() && !options.validate,
            "validate_every is set, and there is no validation. Give validate, or leave "
            "validate_every out.");
  refuse_if(options.on_validation && !options.validates_by_steps(),
            "on_validation is called after validations by steps, and validate_every is 0. Set "
            "validate_every, or use on_epoch.");
  refuse_if(options.log_every > 1 && options.loggers.empty(),
            "log_every is set, and there are no loggers; on_step is called after each step. Give "
            "loggers, or leave log_every out.");
  if (options.early_stopping)
    check_rule(options, *options.early_stopping, "early_stopping", "EarlyStopping");
}

/// Throws BadValue if the recipe's objective keeps the outputs from the metrics of training.
inline void check_outputs(FitCalls& calls, const FitSettings& options) {
  if (options.train_metrics.empty()) return;
  if (const std::string objective = calls.objective_without_outputs(); !objective.empty())
    throw BadValue("fit: train_metrics needs the model's outputs, and " + objective +
                   " leaves them out of training steps, so that their memory is free after the "
                   "backward. Write " +
                   objective + "{.outputs = true}.");
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
        progress_(options.progress, options.max_epochs(), calls.size(), options.batches_per_step),
        made_(state.all_steps()) {
    progress_.begin_at(state.epoch, state.steps);
    if (options.max_steps) progress_.end_at(*options.max_steps);
    const auto ranks = calls.several_ranks();
    logs_ = !ranks || ranks->data().rank() == 0;
  }
  void run() {
    begin_logs();
    // A training that was saved where it ends within an epoch still ends that epoch.
    while (state_.epoch < options_.max_epochs() && (!is_done() || state_.steps > 0)) {
      Epoch& epoch = make_epoch();
      if (state_.history.terminated) break;
      progress_.pause([&] { end_epoch(epoch); });
      if (is_done()) break;
      if (epoch.validation) state_.stopper.add(*epoch.validation);
      state_.begin_next_epoch();
      keeper_.after_epoch(epoch);
      note_stop(calls_.agree_to_stop_now(wish()), state_.history);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  StopWish wish() const { return stop_wish(options_, state_, sigterm_); }
  bool is_done() const {
    return state_.history.stopped || (options_.max_steps && made_ >= *options_.max_steps);
  }
  void begin_logs() const {
    const auto& resumed_at = state_.history.resumed_at;
    if (!logs_) return;
    for (const Logger& logger : options_.loggers)
      logger.begin({.step = calls_.steps(), .epoch = state_.epoch, .resumed = bool(resumed_at)});
  }
  template <class Event>
  void log(const Event& event) const {
    if (!logs_) return;
    for (const Logger& logger : options_.loggers) logger.log(event);
  }
  bool after_step(const Report& report) {
    ++made_;
    state_.add(report);
    progress_.draw(state_.epoch, report);
    if (calls_.steps() % options_.log_every == 0) log(report);
    if (options_.on_step) options_.on_step(report);
    const bool is_validated =
        options_.validates_by_steps() && calls_.steps() % options_.validate_every == 0;
    if (is_validated) validate_between_steps(report.step);
    keeper_.after_step(is_validated ? &state_.history.validations.back() : nullptr);
    note_stop(calls_.agree_to_stop(wish()), state_.history);
    return !is_done();
  }
  void validate_between_steps(std::int64_t step) {
    const auto begin = Clock::now();
    progress_.pause([&] {
      auto& all = state_.history.validations;
      all.push_back({calls_.validate(), step, state_.epoch});
      state_.stopper.add(all.back());
      log(all.back());
      if (options_.on_validation) options_.on_validation(all.back());
    });
    validating_ += Clock::now() - begin;
  }
  void make_steps() {
    if (is_done()) return;
    calls_.make_steps({state_.epoch, state_.batch, state_.train_metrics,
                       [this](const Report& report) { return after_step(report); }});
    if (is_done()) keeper_.after_stop();
  }
  Epoch& make_epoch() {
    const auto begin = Clock::now();
    validating_ = {};
    state_.current_epoch();
    make_steps();
    if (calls_.keeps_state())  // it was at the end of an epoch, so this is its next epoch
      if (state_.batch == 0 && state_.steps == 0) make_steps();
    Epoch& epoch = state_.current_epoch();
    epoch.seconds = std::chrono::duration<double>(Clock::now() - begin - validating_).count();
    epoch.last_step = calls_.steps() - 1;
    if (epoch.steps == 0)
      throw BadBatch("fit: the loader gave no batch. Give it data, and check drop_last.");
    return epoch;
  }
  /// Reads the metrics of training, over all ranks. Other ranks hear of what it throws.
  MetricValues train_metrics() {
    if (state_.train_metrics.empty()) return {};
    const auto ranks = calls_.several_ranks();
    if (!ranks) return state_.train_metrics.values(nullptr);
    MetricValues values;
    calls_.together_or_not("the metrics of training",
                           [&] { values = state_.train_metrics.values(&ranks->data()); });
    return values;
  }
  void end_epoch(Epoch& epoch) {
    epoch.train_metrics = train_metrics();
    if (options_.validate && !options_.validates_by_steps()) epoch.validation = calls_.validate();
    end_epoch_of_policies(epoch);
    log(epoch);
    if (options_.on_epoch) options_.on_epoch(epoch);
  }
  /// Gives policies the newest validation, also if it was made between steps. Before the first
  /// one, a policy that needs it throws, because the loss of training is no substitute.
  void end_epoch_of_policies(Epoch epoch) {
    if (!options_.validates_by_steps()) return calls_.end_epoch(epoch);
    const auto& all = state_.history.validations;
    epoch.validation.emplace();
    if (!all.empty()) *epoch.validation = all.back();
    try {
      calls_.end_epoch(epoch);
    } catch (const Error& error) {
      if (!all.empty()) throw;
      throw BadValue(
          "fit: a policy needs a validation at the end of an epoch, and validate_every "
          "has made none by then. Set it to at most " +
          std::to_string(epoch.steps) + ", the steps of the epoch. " + error.what());
    }
  }

  FitCalls& calls_;
  const FitSettings& options_;
  FitState& state_;
  StateKeeper& keeper_;
  SigtermRequest sigterm_;
  Progress progress_;
  std::int64_t made_;  // the steps of this training, with those before a resume
  bool logs_ = true;
  Clock::duration validating_{};  // the time of validations within the epoch
};

inline History fit_epochs(FitCalls& calls, const FitSettings& options) {
  check_options(options);
  check_outputs(calls, options);
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
