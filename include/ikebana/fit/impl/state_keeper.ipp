#pragma once
#include <cmath>
#include <cstdio>
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/fit/state_keeper.hpp>
#include <ikebana/fit/validation_rule.hpp>
#include <ikebana/ranks/all_or_none.hpp>
#include <ikebana/state/ranks/save_on_ranks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE StateKeeper::StateKeeper(FitCalls& calls, const FitSettings& options,
                                        FitState& state)
    : calls_(calls),
      options_(options),
      fit_state_(state),
      folder_(options.save_to, options.keep, *options.files) {
  check();
  fit_state_.batches_per_step = options.batches_per_step;
  fit_state_.batches = calls.indexed_batches();
  for (const auto& metric : options.metrics) fit_state_.metrics.push_back(metric);
  begin_train_metrics();
  if (options.keep_best) fit_state_.best_rule = text_of_rule(*options.keep_best);
  if (saves()) parts();  // reports two parts of one name now
}

IKEBANA_INLINE void StateKeeper::begin_train_metrics() {
  if (options_.train_metrics.empty()) return;
  const auto several = calls_.several_ranks();
  fit_state_.train_metrics.begin(options_.train_metrics, several ? several->data().rank() : 0,
                                 several ? several->data().size() : 1,
                                 saves() && resumes_within_epoch());
}

IKEBANA_INLINE void StateKeeper::begin() {
  if (!saves()) return;
  if (calls_.several_ranks()) return begin_on_ranks();
  folder_.open();
  if (!options_.resume) return refuse_other_states(folder_.steps().empty());
  if (auto newest = folder_.newest()) resume({std::move(newest->tensors), {}}, /*rank=*/0);
}

IKEBANA_INLINE void StateKeeper::after_step(const Evaluation* validation) {
  step_is_saved_ = false;
  if (!saves()) return;
  const bool best = validation && is_best(*validation);
  if (best || (options_.save_every > 0 && calls_.steps() % options_.save_every == 0)) save(best);
}

IKEBANA_INLINE void StateKeeper::after_epoch(const Epoch& epoch) {
  if (!saves()) return;
  save(epoch.validation && is_best(*epoch.validation));
}

IKEBANA_INLINE void StateKeeper::after_stop() {
  if (!saves() || step_is_saved_) return;
  if (resumes_within_epoch()) return save(/*is_best=*/false);
  TORCH_WARN(
      "fit: stopped within an epoch, and this loader cannot resume there; the newest state is "
      "that of the last completed epoch. Use ikebana::DataLoader to resume within one.");
}

IKEBANA_INLINE void StateKeeper::end() {
  finish_save();
  if (error_) std::rethrow_exception(error_);
}

IKEBANA_INLINE void StateKeeper::check() {
  auto refuse_if = [](bool wrong, const std::string& why) {
    if (wrong) throw BadValue("fit: " + why);
  };
  const bool needs_folder = options_.save_every != 0 || options_.keep_best || options_.resume ||
                            options_.save_async || options_.save_on_sigterm ||
                            !options_.parts.empty();
  check_metric_names(options_.metrics);
  refuse_if(!saves() && needs_folder,
            "save_to is empty, and save_every, keep_best, resume, save_async, save_on_sigterm and "
            "parts need a folder. Give save_to.");
  refuse_if(options_.save_every < 0,
            "save_every is " + std::to_string(options_.save_every) + "; it must be 0 or more.");
  refuse_if(options_.keep < 1,
            "keep is " + std::to_string(options_.keep) + "; it must be 1 or more.");
  if (options_.keep_best) check_rule(options_, *options_.keep_best, "keep_best", "KeepBest");
  refuse_if(options_.save_every > 0 && !resumes_within_epoch(),
            "save_every is set, and this loader cannot resume within an epoch. Use "
            "ikebana::DataLoader, or leave save_every out: each epoch ends with a save.");
  refuse_if(options_.keep_best && options_.validates_by_steps() && !resumes_within_epoch(),
            "keep_best with validate_every saves within epochs, and this loader cannot resume "
            "there. Use ikebana::DataLoader, or leave validate_every out.");
  refuse_if(options_.keep_best && options_.max_steps && !options_.validates_by_steps(),
            "keep_best chooses by validations at the ends of epochs, and max_steps may end "
            "within one. Set validate_every, or epochs instead of max_steps.");
}

IKEBANA_INLINE void StateKeeper::refuse_other_states(bool is_empty) const {
  if (!is_empty)
    throw BadValue("fit: `" + options_.save_to.string() +
                   "` holds states of another training. Set resume to continue it, or name "
                   "another folder.");
}

IKEBANA_INLINE void StateKeeper::begin_on_ranks() {
  calls_.together_or_not("the beginning of fit", [&] {
    RankGroup& group = calls_.several_ranks()->data();
    const auto all = all_or_none<RankFailed>(group, "the folder of fit", [&] {
      std::string steps;
      if (group.rank() != 0) return steps;
      folder_.open();
      for (const std::int64_t step : folder_.steps()) steps += std::to_string(step) + "\n";
      if (!options_.resume) refuse_other_states(steps.empty());
      return steps;
    });
    check_folder_of_ranks(group);
    if (!all[0].empty()) resume_on_ranks(group, lines_of(all[0]));
  });
}

IKEBANA_INLINE void StateKeeper::check_folder_of_ranks(RankGroup& group) {
  Files& files = *options_.files;
  auto trial_of = [&](std::int64_t rank) {
    return options_.save_to / ("rank-" + std::to_string(rank) + new_suffix);
  };
  const Files::Path own = trial_of(group.rank());
  try {
    all_or_none<FileFailed>(group, "a trial of the folder of fit", [&] {
      if (group.rank() != 0) files.make_folder(options_.save_to), files.create(own, 0);
      return std::string();
    });
    all_or_none<FileFailed>(group, "a look at the folder of fit", [&] {
      for (std::int64_t rank = 1; group.rank() == 0 && rank < group.size(); ++rank)
        if (!files.exists(trial_of(rank)))
          throw FileFailed("fit: rank " + std::to_string(rank) + " has written `" +
                           trial_of(rank).string() +
                           "`, and rank 0 does not see it. Give all ranks one folder, on a file "
                           "system that their hosts share.");
      return std::string();
    });
  } catch (...) {
    remove_quietly(files, own);
    throw;
  }
  if (group.rank() != 0) remove_quietly(files, own);
}

IKEBANA_INLINE void StateKeeper::resume_on_ranks(RankGroup& group,
                                                 const std::vector<std::string>& steps) {
  StatePaths places;
  std::map<Files::Path, std::int64_t> last_places;
  for (const std::string& step : steps) {
    for (const auto& place : places_of(folder_.path_of(std::stoll(step)))) places.push_back(place);
    last_places[places.back()] = std::stoll(step);
  }
  std::string reason;  // why the state at a step's first path cannot be read
  auto skip = [&](const Files::Path& place, const std::string& why) {
    const auto last = last_places.find(place);
    if (last == last_places.end()) reason = why;
    else folder_.skip(last->second, std::exchange(reason, {}));
  };
  auto plan = [&](StateDict names) { return calls_.rows_to_load(std::move(names)); };
  auto newest = read_on_ranks(group, *options_.files, places, plan, skip);
  if (!reason.empty()) TORCH_WARN(reason, " Loaded the state before it.");
  resume(std::move(newest.state), group.rank());
}

IKEBANA_INLINE void StateKeeper::resume(RankState state, std::int64_t rank) {
  calls_.restore_rows(std::move(state), parts());
  fit_state_.history.resumed_at = calls_.steps();
  fit_state_.number_epochs(calls_.steps());
  if (!options_.progress || rank != 0) return;
  std::fprintf(stderr, "fit: resumes after %lld steps, in epoch %lld, from the state in `%s`\n",
               static_cast<long long>(calls_.steps()), static_cast<long long>(fit_state_.epoch),
               options_.save_to.string().c_str());
}

IKEBANA_INLINE StateParts StateKeeper::parts() {
  StateParts parts(fit_state_);
  calls_.add_to(parts);
  parts.append(options_.parts);
  return parts;
}

IKEBANA_INLINE bool StateKeeper::is_best(const Evaluation& evaluation) {
  if (!options_.keep_best) return false;
  wait_for_disk();  // if the best state so far fails to be saved, this one may be the best
  const KeepBest& rule = *options_.keep_best;
  const double value = value_by(rule, evaluation);
  double& best = fit_state_.best;
  const bool better = smallest_is_best(rule) ? value < best : value > best;
  if (std::isnan(value) || (!better && !std::isnan(best))) return false;
  previous_best_ = std::exchange(best, value);
  return true;
}

IKEBANA_INLINE void StateKeeper::save(bool is_best) {
  wait_for_disk();
  const std::int64_t step = calls_.steps();
  last_step_ = step, last_is_best_ = is_best;
  warn_if_it_fails([&] {
    error_ = nullptr;
    if (calls_.several_ranks()) save_on_ranks(step, is_best);
    else save_alone(step, is_best);
    step_is_saved_ = true;
  });
}

IKEBANA_INLINE void StateKeeper::save_alone(std::int64_t step, bool is_best) {
  auto write = [this, step, is_best, metadata = metadata_of(calls_)](const StateDict& state) {
    folder_.save(step, state, metadata, is_best);
  };
  RankState state = calls_.rank_state(parts());
  if (options_.save_async) saver_.save(state.tensors, write);
  else write(state.tensors);
}

IKEBANA_INLINE void StateKeeper::save_on_ranks(std::int64_t step, bool is_best) {
  const StatePaths paths = folder_.paths_of(step, is_best);
  const Clean clean = [this, step] { folder_.clean(step); };
  if (options_.save_async)
    save_async_on_ranks(calls_, saver_, parts(), paths, *options_.files, clean);
  else detail::save_on_ranks(calls_, parts(), paths, *options_.files, clean);
}

IKEBANA_INLINE void StateKeeper::wait_for_disk() {
  if (saver_.is_busy() && !std::exchange(has_warned_of_slow_disk_, true))
    TORCH_WARN(
        "fit: the disk is slower than save_every asks for, and training waits for it. Raise "
        "save_every.");
  finish_save();
}

IKEBANA_INLINE void StateKeeper::finish_save() {
  warn_if_it_fails([&] { saver_.finish(); });
}

IKEBANA_INLINE void StateKeeper::warn_if_it_fails(c10::function_ref<void()> save) {
  try {
    save();
  } catch (const FileFailed& error) {
    error_ = std::current_exception();
    if (std::exchange(last_is_best_, false)) fit_state_.best = previous_best_;
    TORCH_WARN("fit: the state of step ", last_step_,
               " was not saved; training goes on, and the next save tries again. ", error.what());
  }
}

}  // namespace ikebana::detail
