#pragma once
// Defines a trainer and its loader as `profile_run` sees them, without their types.
#include <chrono>
#include <ikebana/checks/values.hpp>
#include <ikebana/data/loader.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/observe/each_unit.hpp>
#include <ikebana/observe/memory.hpp>
#include <ikebana/observe/phases.hpp>
#include <ikebana/profiling/diagnosis.hpp>
#include <ikebana/state/state_parts.hpp>
#include <optional>

namespace ikebana::detail {

/// A trainer and the batches that it is given, one after the other.
struct ProfiledTraining {
  virtual ~ProfiledTraining() = default;

  /// Reads the next batch, from the loader's beginning after its end, and returns the seconds for
  /// which the loop waited. Throws BadValue for a loader without a batch.
  virtual double next_batch() = 0;
  /// Returns true if that batch was the first of an epoch.
  virtual bool begins_epoch() = 0;
  /// Makes a step on that batch, and returns its report.
  virtual Report step() = 0;
  virtual c10::Device device() = 0;
  virtual std::string describe() = 0;
  /// Sets the facts that follow from the recipe and the loader.
  virtual void describe(TrainingFacts& facts) = 0;

  virtual PhaseSummary phases() = 0;
  virtual void reset_phases() = 0;
  /// Begins or ends the measurement of units. Returns false if the recipe cannot measure them.
  virtual bool measure_units(bool measures) = 0;
  virtual UnitSummary units() = 0;
  /// Gives each unit that `measure_units` measures a range in what `profiler` records; nullptr: no
  /// longer.
  virtual void mark_units(ProfilerLoop* profiler) = 0;
  /// Begins or ends the measurement of the memory of units; while it is on, each report has its
  /// memory. Returns false if the recipe cannot.
  virtual bool measure_memory(bool measures) = 0;

  /// Reads batches with this number of workers from now on, which are persistent or not; 0: from
  /// the loader again. Returns false if it cannot.
  virtual bool try_workers(std::int64_t workers, bool are_persistent) = 0;
  /// Keeps the state of the trainer and of the loader, and restores it.
  virtual void keep_state() = 0;
  virtual void restore_state() = 0;
  /// Tells other ranks that this one ends with the present exception.
  virtual void report_exception() noexcept = 0;
};

/// The batches of a loader, and of it again after its end.
template <class Range>
class EndlessBatches {
 public:
  explicit EndlessBatches(Range& range) : range_(range) {}

  /// Goes to the next batch, which `batch` then returns.
  void next() {
    if (at_) ++*at_;
    is_first_ = !at_ || *at_ == std::end(range_);
    if (is_first_) at_.emplace(std::begin(range_));
    if (*at_ == std::end(range_))
      throw BadValue("profile_run: the loader has no batch. Give it a dataset with samples.");
  }
  decltype(auto) batch() { return **at_; }
  /// Returns true if that batch is the first of the range.
  bool is_first() const { return is_first_; }
  /// Forgets where it was, since the loader's position is about to be changed.
  void stop() { at_.reset(); }

 private:
  Range& range_;
  std::optional<decltype(std::begin(std::declval<Range&>()))> at_;
  bool is_first_ = false;
};

template <class Loader>
inline constexpr bool is_data_loader = false;
template <class Dataset, class Collate>
inline constexpr bool is_data_loader<DataLoader<Dataset, Collate>> = true;

/// A loader of the same batches with another number of workers; std::monostate if this loader
/// cannot make one.
template <class Range>
struct other_loader {
  using type = std::monostate;
};
template <class Range>
  requires requires(Range& range) { range.with_options(DataLoaderOptions()); }
struct other_loader<Range> {
  using type = decltype(std::declval<Range&>().with_options(DataLoaderOptions()));
};

template <class Trainer, class Range>
class ProfiledTrainingOf final : public ProfiledTraining {
 public:
  ProfiledTrainingOf(Trainer& trainer, Range& loader)
      : trainer_(trainer), loader_(loader), batches_(loader) {
    if constexpr (KeepsState<Range>) parts_.add(loader);
    if constexpr (has<Observe<EachUnit>>)
      was_paused_ = trainer_.template mechanism<Observe<EachUnit>>().is_paused();
    if constexpr (has<Observe<Memory>>) memory_values_ = trainer_.template get<Observe<Memory>>();
  }
  /// Sets the observers as they were, without the times of the profile.
  ~ProfiledTrainingOf() override {
    if constexpr (has<Observe<Memory>>)
      trainer_.template get<Observe<Memory>>() = std::move(memory_values_);
    if constexpr (has<Observe<EachUnit>>)
      trainer_.template mechanism<Observe<EachUnit>>().pause(was_paused_);
    try {
      trainer_.template mechanism<Phased>().reset();
      if constexpr (has<Observe<EachUnit>>)
        trainer_.template mechanism<Observe<EachUnit>>().reset();
    } catch (...) {  // a device that fails has no times
    }
  }
  ProfiledTrainingOf(const ProfiledTrainingOf&) = delete;
  ProfiledTrainingOf& operator=(const ProfiledTrainingOf&) = delete;

  double next_batch() override {
    const BatchWait waits;
    const auto begin = Clock::now();
    if constexpr (can_try_workers) {
      if (other_batches_) other_batches_->next();
      else batches_.next();
    } else {
      batches_.next();
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  bool begins_epoch() override {
    if constexpr (can_try_workers)
      if (other_batches_) return other_batches_->is_first();
    return batches_.is_first();
  }
  Report step() override {
    if constexpr (can_try_workers)
      if (other_batches_) return trainer_.step(other_batches_->batch());
    return trainer_.step(batches_.batch());
  }
  c10::Device device() override { return trainer_.device(); }
  std::string describe() override { return trainer_.describe(); }
  void describe(TrainingFacts& facts) override {
    facts.is_data_loader = is_data_loader<Range>;
    if constexpr (is_data_loader<Range>) {
      facts.num_workers = loader_.num_workers();
      facts.persistent_workers = loader_.options().persistent_workers;
    }
    facts.ranks = trainer_.world_size();
    facts.captures = has<Capture<WholeStep>> || has<Capture<EachUnit>>;
    facts.has_precision = !has<Precision<FP32>>;
  }

  PhaseSummary phases() override { return trainer_.template mechanism<Phased>().summary(); }
  void reset_phases() override { trainer_.template mechanism<Phased>().reset(); }
  bool measure_units(bool measures) override {
    if constexpr (has<Observe<EachUnit>>)
      trainer_.template mechanism<Observe<EachUnit>>().pause(!measures);
    return has<Observe<EachUnit>>;
  }
  UnitSummary units() override {
    if constexpr (has<Observe<EachUnit>>)
      return trainer_.template mechanism<Observe<EachUnit>>().summary();
    else return {};
  }
  void mark_units(ProfilerLoop* profiler) override {
    if constexpr (has<Observe<EachUnit>>)
      trainer_.template mechanism<Observe<EachUnit>>().mark_in(profiler);
  }
  bool measure_memory(bool measures) override {
    if constexpr (has<Observe<Memory>>) {
      auto& values = trainer_.template get<Observe<Memory>>();
      values = memory_values_;
      if (measures) values.by_phase = values.by_unit = true;
    }
    return has<Observe<Memory>>;
  }

  bool try_workers(std::int64_t workers, bool are_persistent) override {
    if constexpr (can_try_workers) {
      other_batches_.reset();
      other_.reset();
      if (workers == 0) return true;
      DataLoaderOptions options = loader_.options();
      options.num_workers = workers, options.persistent_workers = are_persistent;
      other_.emplace(loader_.with_options(options));
      other_batches_.emplace(*other_);
    }
    return can_try_workers;
  }
  void keep_state() override { state_ = trainer_.state(parts_); }
  void restore_state() override {
    batches_.stop();
    trainer_.restore(state_, parts_);
  }
  void report_exception() noexcept override { trainer_.report_exception(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Phased = Observe<Phases>;
  using Other = typename other_loader<Range>::type;
  static constexpr bool can_try_workers = !std::is_same_v<Other, std::monostate>;
  template <class Policy>
  static constexpr bool has = in_recipe<Policy, typename Trainer::Recipe>;

  Trainer& trainer_;
  Range& loader_;
  EndlessBatches<Range> batches_;
  std::optional<Other> other_;
  struct NoBatches {};
  std::optional<std::conditional_t<can_try_workers, EndlessBatches<Other>, NoBatches>>
      other_batches_;
  StateParts parts_;
  StateDict state_;
  Observe<Memory> memory_values_;
  bool was_paused_ = false;
};

}  // namespace ikebana::detail
