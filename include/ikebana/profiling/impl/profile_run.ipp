#pragma once
#include <algorithm>
#include <chrono>
#include <ctime>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/profiler_loop.hpp>
#include <ikebana/observe/trace_files.hpp>
#include <ikebana/posix/process_use.hpp>
#include <ikebana/profiling/machine_facts.hpp>
#include <ikebana/profiling/operator_totals.hpp>
#include <ikebana/profiling/profile_run.hpp>
#include <ikebana/profiling/report_files.hpp>

namespace ikebana::detail {

/// The measurements of `profile_run`, one after the other.
class RunProfiler {
 public:
  RunProfiler(ProfiledTraining& training, const TrainingFacts& facts,
              const std::filesystem::path& folder, const ProfileRunOptions& options)
      : training_(training),
        folder_(folder),
        options_(options),
        device_(training.device()),
        facts_(facts) {}

  RunProfile measure(const Conditions& conditions) {
    profile_.conditions = conditions;
    profile_.recipe = training_.describe();
    training_.measure_units(false);
    baseline();
    units();
    operators();
    memory();
    measure_machine(facts_, device_);
    profile_.roofline =
        roofline(machine_bounds(device_), profile_.units, totals_, profile_.operators,
                 std::max<std::int64_t>(1, profile_.profile.steps));
    profile_.bound_by = bound_of(profile_, facts_);
    profile_.advice = diagnose(profile_, facts_);
    if (options_.tries_advice)
      for (Advice& advice : profile_.advice) try_one(advice);
    return std::move(profile_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The times of some steps.
  struct Steps {
    std::vector<double> seconds, waits, waits_for_first;  // `waits` has all
    double items = 0, without_processor = 0, busy_waits = 0, processors = 0;

    double total() const {
      double sum = 0;
      for (const double s : seconds) sum += s;
      return sum;
    }
    /// Returns the seconds per step for which the loop waited longer for an epoch's first batch
    /// than for most batches.
    double epoch_starts() const {
      const double usual = time_statistics(waits).median;
      double sum = 0;
      for (const double s : waits_for_first) sum += std::max(0.0, s - usual);
      return sum / static_cast<double>(std::max<std::size_t>(1, waits.size()));
    }
  };

  void one_step() {
    training_.next_batch();
    training_.step();
  }

  /// Makes steps as a training does. On an accelerator the host runs ahead, so it waits only before
  /// the first step and after the last one.
  Steps make_steps(std::int64_t warmup, std::int64_t count) {
    for (std::int64_t i = 0; i < warmup; ++i) one_step();
    bridge::synchronize(device_);
    training_.reset_phases();
    Steps steps;
    std::vector<Report> reports;
    reports.reserve(static_cast<std::size_t>(count));
    const std::clock_t clock = std::clock();
    steps.without_processor = -seconds_without_processor();
    auto end = Clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      steps.busy_waits -= seconds_on_processor();
      steps.waits.push_back(training_.next_batch());
      if (training_.begins_epoch()) steps.waits_for_first.push_back(steps.waits.back());
      steps.busy_waits += seconds_on_processor();
      reports.push_back(training_.step());
      reports.back().outputs = at::Tensor();
      if (i + 1 == count) bridge::synchronize(device_);
      const auto now = Clock::now();
      steps.seconds.push_back(std::chrono::duration<double>(now - end).count());
      end = now;
    }
    steps.without_processor += seconds_without_processor();
    steps.processors =
        static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC / std::max(1e-9, steps.total());
    for (const Report& report : reports) steps.items += report.count();
    return steps;
  }

  void baseline() {
    const Steps steps = make_steps(options_.warmup, options_.steps);
    profile_.phases = training_.phases();
    profile_.step_seconds = steps.seconds;
    profile_.step = time_statistics(steps.seconds);
    profile_.waiting = time_statistics(steps.waits);
    profile_.items_per_second = steps.items / steps.total();
    facts_.has_idle_cores =
        facts_.num_workers == 0
            ? steps.busy_waits < 0.5 * profile_.waiting.mean * static_cast<double>(options_.steps)
            : steps.processors < 0.7 * static_cast<double>(profile_.conditions.cores);
    facts_.epoch_starts = steps.epoch_starts();
    facts_.share_without_processor = steps.without_processor / steps.total();
  }

  void units() {
    if (!training_.measure_units(true)) return;
    // The policy leaves out its first steps, in which it counts operators, itself.
    for (std::int64_t i = 0; i < options_.steps + 3; ++i) one_step();
    profile_.units = training_.units();
    training_.measure_units(false);
  }

  /// RAII: undoes a change at the end.
  template <class F>
  struct Undo {
    explicit Undo(F f) : undo(std::move(f)) {}
    ~Undo() { undo(); }
    Undo(const Undo&) = delete;
    Undo& operator=(const Undo&) = delete;
    F undo;
  };

  /// All steps are made on one batch, so that no operator of the loader is among them.
  void operators() {
    training_.next_batch();
    totals_ = count_operators([&] { training_.step(); });
    facts_.traits = traits_of([&] { training_.step(); });
    Observe<Profile> values{.wait = 0, .warmup = 1, .active = options_.operator_steps, .repeat = 1};
    values.record_shapes = true;
    values.folder = folder_;
    ProfilerLoop profiler("profile_run", device_);
    const Undo undo{[this] { training_.mark_units(nullptr); }};
    training_.mark_units(&profiler);
    for (std::int64_t i = 0; i <= options_.operator_steps; ++i) {
      profiler.begin_step(values);
      training_.step();
      profiler.end_step();
    }
    profile_.profile = profiler.result();
    profile_.operators = profile_.profile.key_averages();
    for (const std::string& file : profile_.profile.files) profile_.files.emplace_back(file);
  }

  void memory() {
    if (!training_.measure_memory(true)) return;
    one_step();
    training_.next_batch();
    const Report report = training_.step();
    if (report.memory != nullptr) profile_.memory = *report.memory;
    training_.measure_memory(false);
  }

  /// Follows advice for some steps, if it can be followed while the program runs.
  void try_one(Advice& advice) {
    if (advice.name == "threads") {
      const Undo undo{[threads = at::get_num_threads()] { at::set_num_threads(threads); }};
      at::set_num_threads(static_cast<int>(*advice.value));
      advice.measured_gain = gain();
    } else if (advice.name == "denormals") {
      const Undo undo{[] { flush_denormals(false); }};
      flush_denormals(true);
      advice.measured_gain = gain();
    } else if (advice.name == "data" && advice.value) {
      advice.measured_gain = gain_of_workers(*advice.value, facts_.persistent_workers);
    } else if (advice.name == "persistent_workers") {
      advice.measured_gain = gain_of_workers(*advice.value, true);
    }
  }
  /// Returns no value if the loader cannot read with other workers.
  std::optional<double> gain_of_workers(std::int64_t workers, bool are_persistent) {
    const Undo undo{[this] { training_.try_workers(0, false); }};
    if (!training_.try_workers(workers, are_persistent)) return std::nullopt;
    return gain();
  }
  /// Returns the part of the step's time that is saved now.
  double gain() {
    const Steps steps = make_steps(options_.warmup, options_.steps);
    return 1 - steps.total() / static_cast<double>(steps.seconds.size()) / profile_.step.mean;
  }
  /// Sets it for each thread of operators: a thread has its own, which it got from the thread that
  /// made it.
  static void flush_denormals(bool flush) {
    at::globalContext().setFlushDenormal(flush);
    const std::int64_t threads = at::get_num_threads();
    at::parallel_for(0, threads, 1, [flush](std::int64_t, std::int64_t) {
      at::globalContext().setFlushDenormal(flush);
    });
  }

  ProfiledTraining& training_;
  const std::filesystem::path& folder_;
  const ProfileRunOptions& options_;
  c10::Device device_;
  TrainingFacts facts_;
  OperatorTotals totals_;
  RunProfile profile_;
};

inline void check(const ProfileRunOptions& options, std::int64_t ranks) {
  if (options.tries_advice && ranks > 1)
    throw BadValue("profile_run: tries_advice is for one rank, and this trainer has " +
                   std::to_string(ranks) +
                   ": each rank may get other advice, and all make the same steps. Leave it out.");
  if (options.warmup < 0 || options.steps < 1 || options.operator_steps < 1)
    throw BadValue("profile_run: warmup is " + std::to_string(options.warmup) + ", steps is " +
                   std::to_string(options.steps) + " and operator_steps is " +
                   std::to_string(options.operator_steps) +
                   ". Write 0 or more, 1 or more, and 1 or more.");
}

/// Restores the trainer and the loader, at a second try if memory ended in the first one.
inline void restore(ProfiledTraining& training) {
  try {
    return training.restore_state();
  } catch (const std::exception&) {
  }
  try {
    training.restore_state();
  } catch (const std::exception& error) {
    throw Error(std::string("profile_run: the trainer is as the profiled steps have left it, since "
                            "its state could not be restored: ") +
                error.what() + " Load a saved state before it trains on.");
  }
}

IKEBANA_INLINE RunProfile profile_training(ProfiledTraining& training, const Conditions& conditions,
                                           const std::filesystem::path& folder,
                                           const ProfileRunOptions& options) {
  TrainingFacts facts;
  training.describe(facts);
  check(options, facts.ranks);
  if (!folder.empty()) TraceFiles::check(folder);
  if (options.restore) training.keep_state();
  RunProfile profile;
  try {
    profile = RunProfiler(training, facts, folder, options).measure(conditions);
  } catch (...) {
    training.report_exception();
    if (options.restore && facts.ranks == 1) restore(training);
    throw;
  }
  if (options.restore) restore(training);
  if (!folder.empty()) {
    const auto files = write_report(profile, folder);
    profile.files.insert(profile.files.begin(), files.begin(), files.end());
  }
  return profile;
}

}  // namespace ikebana::detail
