#pragma once
// `fit`, the loop around `step`: epochs, validation, callbacks, a progress bar, saved states.
#include <ikebana/detail/batch_wait.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/fit/fit_calls.hpp>
#include <ikebana/fit/options.hpp>
#include <ikebana/fit/progress.hpp>
#include <ikebana/state/state_folder.hpp>

namespace ikebana {

namespace detail {

/// A loader that keeps no position and whose n-th batch can be reached by its index.
template <class Range>
concept Indexed = !KeepsState<Range> && std::ranges::random_access_range<Range> &&
                  std::ranges::sized_range<Range>;

/// Returns `next()`, for whose result the loop waits.
template <class Next>
decltype(auto) waited(const Next& next) {
  const BatchWait wait;
  return next();
}

/// Calls `f` for every remaining batch of an epoch, which begins with number `at`, until it returns
/// false. Returns false in that case, else true.
template <class Range, class F>
bool each_remaining_batch(Range& loader, std::int64_t& at, const F& f) {
  auto batch = waited([&] { return std::begin(loader); });
  if constexpr (Indexed<Range>) batch += at;
  for (; batch != std::end(loader); waited([&] { ++batch; })) {
    ++at;
    auto&& one = waited([&]() -> decltype(auto) { return *batch; });
    if (!f(std::forward<decltype(one)>(one))) return false;
  }
  return true;
}

/// The tensors of a group of batches, which their loader must not write to before the step.
class GroupTensors {
 public:
  GroupTensors();
  ~GroupTensors();
  GroupTensors(const GroupTensors&) = delete;
  GroupTensors& operator=(const GroupTensors&) = delete;
  /// Throws BadBatch if the memory of an earlier tensor was overwritten to make this one.
  void add(const at::Tensor& t);
  void clear();

 private:
  std::vector<std::pair<const void*, Version>> all_;
};
/// The batches of one update.
template <class Batch>
class BatchGroup {
 public:
  std::int64_t size() const { return std::ssize(batches_); }
  /// Throws BadBatch if an earlier batch was overwritten to make this one.
  void add(const Batch& batch) {
    for_each_tensor(batch, [&](const at::Tensor& t) { tensors_.add(t); });
    batches_.push_back(batch);
  }
  Microbatches<Batch> take() {
    tensors_.clear();
    return std::exchange(batches_, {});
  }

 private:
  Microbatches<Batch> batches_;
  GroupTensors tensors_;
};

/// Notes a wish to stop in `history`. Returns whether training stops.
bool note_stop(StopWish wish, History& history);
/// The shapes of this rank's batches. After the end of its loader, while other ranks have batches,
/// the rank makes a batch of weight zero with these shapes.
template <class Batch>
class BatchShape {
 public:
  void take(const Batch& batch) {
    if (none_.empty()) none_.push_back(without_rows(batch));
  }
  /// Calls `f(report)` for each step of the other ranks, until it returns false or no rank has a
  /// batch.
  template <class Trainer, class F>
  void join(Trainer& trainer, const F& f) const {
    std::optional<Report> report;
    do report = trainer.join_step(none_);
    while (report && f(*report));
  }

 private:
  Microbatches<Batch> none_;
};

/// The arguments of `fit`, with their types erased.
template <class Trainer, class Range, class Batch>
class FitCallsOf final : public SavedTrainerOf<Trainer, FitCalls> {
 public:
  FitCallsOf(Trainer& trainer, Range& loader, const FitOptions<Batch>& options,
             c10::function_ref<void(const Epoch&)> end_epoch)
      : SavedTrainerOf<Trainer, FitCalls>(trainer),
        loader_(loader),
        options_(options),
        end_epoch_(end_epoch) {}

  StopWish agree_to_stop(StopWish wish) override { return trainer_.agree_to_stop(wish); }
  StopWish agree_to_stop_now(StopWish wish) override { return trainer_.agree_to_stop_now(wish); }
  void report_exception() override {
    trainer_.set_position({});
    trainer_.report_exception();
  }

  bool keeps_state() const override { return KeepsState<Range>; }
  std::int64_t indexed_batches() override {
    if constexpr (Indexed<Range>) return static_cast<std::int64_t>(std::ranges::size(loader_));
    else return -1;
  }
  std::optional<std::int64_t> size() override {
    const auto& loader = loader_;
    if constexpr (requires { std::size(loader); })
      return static_cast<std::int64_t>(std::size(loader));
    else return std::nullopt;
  }
  void add_to(StateParts& parts) override {
    parts.add(options_.validate);
    if constexpr (KeepsState<Range>) parts.add(loader_);
  }
  std::string lines_of_loader() override {
    if constexpr (runs_on_one_rank<Trainer>) return {};
    else return detail::lines_of_loader(loader_);
  }
  std::string lines_of_validation() override { return options_.validate.lines(); }

  void make_steps(const EpochSteps& steps) override {
    BatchGroup<Batch> group;
    bool may_join = false;
    if constexpr (!runs_on_one_rank<Trainer>) may_join = trainer_.world_size() > 1;
    auto update = [&](const auto& batch, std::int64_t batches) {
      trainer_.set_position(BatchPosition{steps.epoch, steps.batch - batches});
      const Report report = trainer_.step(batch);
      if (!steps.metrics.empty()) add_step(steps.metrics, batch, report.outputs);
      return steps.end_step(report);
    };
    auto add_to_group = [&](auto&& batch) {
      if constexpr (!runs_on_one_rank<Trainer>)
        if (may_join) shape_.take(batch);
      if (options_.batches_per_step == 1) return update(batch, 1);
      group.add(batch);
      if (group.size() < options_.batches_per_step) return true;
      return update(group.take(), options_.batches_per_step);
    };
    // The last group may hold fewer batches; the loss is divided by the count of what it holds.
    if (!each_remaining_batch(loader_, steps.batch, add_to_group)) return;
    const std::int64_t left = group.size();
    if (left > 0 && !update(group.take(), left)) return;
    if constexpr (!runs_on_one_rank<Trainer>)
      if (may_join) shape_.join(trainer_, steps.end_step);
  }
  Evaluation validate() override { return trainer_.evaluate(options_.validate, options_.metrics); }
  void end_epoch(const Epoch& epoch) override { end_epoch_(epoch); }

 private:
  using SavedTrainerOf<Trainer, FitCalls>::trainer_;
  Range& loader_;
  const FitOptions<Batch>& options_;
  c10::function_ref<void(const Epoch&)> end_epoch_;
  BatchShape<Batch> shape_;
};

/// Runs `fit` with the types erased.
History run_fit(FitCalls& calls, const FitSettings& options);

}  // namespace detail

/// Trains for `options.epochs` epochs, or until `options.max_steps`, and calls `end_epoch(epoch)`
/// after each epoch. Waits for the device when it reads losses: at the end of an epoch, for a saved
/// state, for the progress bar, and for each step that a logger gets.
/// Throws BadValue for options that contradict each other. On several ranks all stop after the same
/// step, at most one later than a rank wants to, and if one throws, all do. A rank whose loader
/// gives fewer batches takes part in the remaining steps with batches of weight zero.
template <class Trainer, class Range, class Batch, class EndEpoch>
History fit(Trainer& trainer, Range& loader, const FitOptions<Batch>& options,
            EndEpoch&& end_epoch) {
  detail::FitCallsOf<Trainer, Range, Batch> calls(trainer, loader, options, end_epoch);
  return detail::run_fit(calls, detail::settings_of(options));
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit.ipp>
#endif
