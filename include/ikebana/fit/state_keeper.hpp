#pragma once
// What `fit` saves and resumes from.
#include <ikebana/fit/fit_state.hpp>
#include <ikebana/fit/options.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/state_folder.hpp>
#include <ranges>

namespace ikebana::detail {

/// A loader whose n-th batch is found by its number.
template <class Range>
concept Indexed = !KeepsState<Range> && std::ranges::random_access_range<Range> &&
                  std::ranges::sized_range<Range>;

/// Keeps the states of one `fit` in a folder; without a folder it does nothing.
template <class Trainer, class Range, class Batch>
class StateKeeper {
 public:
  StateKeeper(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, FitState& at)
      : trainer_(trainer),
        loader_(loader),
        options_(options),
        at_(at),
        folder_states_(options.save_to, options.keep, *options.files) {
    check();
    at_.batches_per_step = options.batches_per_step;
    if constexpr (Indexed<Range>)
      at_.batches = static_cast<std::int64_t>(std::ranges::size(loader));
    for (const auto& metric : options.metrics) at_.metrics.push_back(metric.name());
  }

  /// Opens the folder, and goes on from its newest state where that is asked for.
  void begin() {
    if (!on()) return;
    folder_states_.open();
    if (options_.resume) {
      if (auto found = folder_states_.newest()) trainer_.restore(found->tensors, parts());
    } else if (!folder_states_.steps().empty()) {
      throw BadValue("fit: `" + options_.save_to.string() +
                     "` holds states of another training. Set resume to go on from them, or name "
                     "another folder.");
    }
  }
  void after_step() {
    is_saved_ = false;
    if (on() && options_.save_every > 0 && trainer_.steps() % options_.save_every == 0) save(false);
  }
  /// After the position has moved to the next epoch.
  void after_epoch(const Epoch& epoch) {
    if (!on()) return;
    wait_for_disk();  // the best that was to be may not have been saved
    save(is_best(epoch));
  }
  /// In the middle of an epoch.
  void at_stop() {
    if (!on()) return;
    if (is_saved_) return;
    if constexpr (exact_position) return save(false);
    TORCH_WARN(
        "fit: stopped within an epoch of a loader that cannot go on there; the newest state "
        "is that of the last whole epoch.");
  }
  /// Waits for what is on its way; throws what the last save failed with.
  void end() {
    settle();
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  static constexpr bool exact_position = KeepsState<Range> || Indexed<Range>;

  bool on() const { return !options_.save_to.empty(); }
  void check() const {
    auto refuse = [](bool bad, const char* why) {
      if (bad) throw BadValue(std::string("fit: ") + why);
    };
    const bool any = options_.save_every != 0 || options_.keep_best || options_.resume ||
                     options_.save_async || options_.save_on_sigterm;
    refuse(!on() && any, "there is no folder to save to. Give save_to.");
    refuse(options_.save_every < 0 || options_.keep < 1,
           "save_every must be 0 or more, and keep 1 or more.");
    refuse(options_.keep_best && !options_.validate,
           "the best state is chosen by validation. Give validate, or leave keep_best out.");
    if (options_.keep_best && !options_.keep_best->metric.empty())
      refuse(std::none_of(options_.metrics.begin(), options_.metrics.end(),
                          [&](const auto& m) { return m.name() == options_.keep_best->metric; }),
             "keep_best names a metric that is not among metrics.");
    refuse(options_.save_every > 0 && !exact_position,
           "this loader cannot go on within an epoch. Use ikebana::DataLoader, or leave save_every "
           "out: each epoch ends with a save.");
  }
  StateParts parts() {
    StateParts all(at_);
    if constexpr (KeepsState<Range>) all.add(loader_);
    return all;
  }
  bool is_best(const Epoch& epoch) {
    if (!options_.keep_best) return false;
    const KeepBest& rule = *options_.keep_best;
    const double value =
        rule.metric.empty() ? epoch.validation->loss : (*epoch.validation)[rule.metric];
    const bool better = rule.mode == KeepBest::min ? value < at_.best : value > at_.best;
    if (std::isnan(value) || (!better && !std::isnan(at_.best))) return false;
    best_before_ = std::exchange(at_.best, value);
    return true;
  }
  void save(bool is_best) {
    wait_for_disk();
    const std::int64_t step = trainer_.steps();
    std::function<void(const StateDict&)> write =
        [this, step, is_best, metadata = trainer_.metadata()](const StateDict& state) {
          folder_states_.save(step, state, metadata, is_best);
        };
    step_ = step, is_best_ = is_best;
    guarded([&] {
      failed_ = nullptr;
      const StateDict state = trainer_.state_view(parts());
      if (options_.save_async) saver_.save(state, write);
      else write(state);
      is_saved_ = true;
    });
  }
  void wait_for_disk() {
    if (saver_.is_busy() && !std::exchange(told_, true))
      TORCH_WARN(
          "fit: the disk is slower than states are asked for, and training waits for it. "
          "Raise save_every.");
    settle();
  }
  void settle() {
    guarded([&] { saver_.finish(); });
  }
  /// A disk that refuses ends no training: what is in memory is worth more than what was saved.
  template <class F>
  void guarded(F&& f) {
    try {
      f();
    } catch (const FileFailed& error) {
      failed_ = std::current_exception();
      if (std::exchange(is_best_, false)) at_.best = best_before_;  // the next may be it
      TORCH_WARN("fit: the state of step ", step_,
                 " was not saved; training goes on, and the next "
                 "save tries again. ",
                 error.what());
    }
  }

  Trainer& trainer_;
  Range& loader_;
  const FitOptions<Batch>& options_;
  FitState& at_;
  StateFolder folder_states_;
  AsyncSaver saver_;
  std::exception_ptr failed_;  // why the last save is not there
  std::int64_t step_ = 0;      // of the last save
  bool is_saved_ = false;      // this very step
  bool is_best_ = false;       // the last save
  double best_before_ = 0;
  bool told_ = false;  // that the disk is slow
};

}  // namespace ikebana::detail
