// The folder of states that `fit` keeps: a save is interrupted at every operation, by each fault,
// then the power fails. A resumed training finds the newest state, and the best state of its
// history.
#include <cstdio>
#include <ikebana/state/state_folder.hpp>

#include "state/campaign/scenarios.hpp"

namespace campaign {
namespace {

/// A training that saves steps 1, 2, ...: which of them are the best so far, and how many are kept.
struct Plan {
  FileSystem kind;
  std::int64_t keep;
  unsigned bests;  // bit `step` is set if that step is the best so far

  bool is_best(int step) const { return ((bests >> step) & 1) != 0; }
  /// Returns the best step after `step` steps.
  int best(int step) const {
    while (step > 0 && !is_best(step)) --step;
    return step > 0 ? step : nothing;
  }
  std::string text() const {
    return std::string("folders: keep ") + std::to_string(keep) + ", bests " +
           std::to_string(bests) + (kind.journal ? "" : ", no journal") +
           (kind.links ? "" : ", no links");
  }
};

class Folders {
 public:
  explicit Folders(std::int64_t count) {
    for (const FileSystem kind : {FileSystem{true, true}, FileSystem{false, true},
                                  FileSystem{true, false}, FileSystem{false, false}})
      for (const std::int64_t keep : {1, 2})
        for (unsigned bests = 0; bests < 16; bests += 2) plans_.push_back({kind, keep, bests});
    for (const Plan& plan : plans_) each_point(plan, [&](auto&&...) { ++points_; });
    each_ = std::max<std::int64_t>(1, count / points_);
    step_ = std::max<std::int64_t>(1, points_ / count) | 1;
  }
  void run() {
    std::int64_t seen = 0;
    for (const Plan& plan : plans_)
      each_point(plan, [&](const Disk& before, int step, Fault fault, std::int64_t at) {
        if (seen++ % step_ == 0) interrupt(plan, before, step, fault, at);
      });
    std::printf(
        "folders: %lld cases at %lld operations of %zu trainings that keep their newest states "
        "and the best; found: %lld times the old state, %lld the new one\n",
        (long long)cases_, (long long)((seen + step_ - 1) / step_), plans_.size(),
        (long long)found_[0], (long long)found_[1]);
  }

 private:
  static constexpr int steps = 3;
  static constexpr const char* folder = "folder";

  /// Saves a step, and returns how many operations it took.
  static std::int64_t save(Disk& disk, const Plan& plan, int step) {
    ikebana::StateFolder states(folder, plan.keep, disk);
    states.open();
    (void)states.newest();
    states.save(step, state_of(step), {}, plan.is_best(step));
    return disk.operations();
  }
  /// Calls `f(disk, step, fault, at)` for each operation of each save, and for saves without a
  /// fault.
  template <class F>
  static void each_point(const Plan& plan, F&& f) {
    Disk disk(plan.kind);
    for (int step = 1; step <= steps; ++step) {
      Disk after = disk;
      after.plan(Fault::PowerLoss, Disk::never);
      const std::int64_t operations = save(after, plan, step);
      for (const Fault fault : {Fault::PowerLoss, Fault::Full, Fault::Broken})
        for (std::int64_t at = Disk::never; at < operations; ++at) f(disk, step, fault, at);
      disk = after;
    }
  }
  void interrupt(const Plan& plan, const Disk& before, int step, Fault fault, std::int64_t at) {
    Disk after = before;
    bool completed = false;
    after.plan(fault, at);
    try {
      save(after, plan, step), completed = true;
    } catch (const ikebana::FileFailed&) {
    } catch (const Disk::LostPower&) {
    }
    after.revive();
    const std::string when = plan.text() + ", step " + std::to_string(step) + ", fault " +
                             std::to_string(static_cast<int>(fault)) + " at " + std::to_string(at);
    check_resume(plan, after, step, completed, when + "; killed");
    Choices choices = Choices::by_chance(static_cast<std::uint64_t>(cases_));
    for (std::int64_t n = 0; n < each_; ++n)
      check_resume(plan, after.after_loss(choices), step, completed, when + "; lost");
  }
  /// Checks which states are found, and what a training that resumes from there saves.
  void check_resume(const Plan& plan, Disk disk, int step, bool completed,
                    const std::string& when) try {
    ++cases_;
    ikebana::StateFolder states(folder, plan.keep, disk);
    states.open();
    const auto found = states.newest();
    const int newest = found ? number_of(found->tensors) : nothing,
              old = step > 1 ? step - 1 : nothing;
    require(newest == step || (newest == old && !completed),
            "the newest is " + std::to_string(newest));
    const int best = number_on(disk, states.best_path());
    require(best == plan.best(step) || (newest == old && best == plan.best(step - 1)),
            "the newest is " + std::to_string(newest) + ", and the best " + std::to_string(best));
    ++found_[newest == step ? 1 : 0];
    for (int next = newest == nothing ? 1 : newest + 1; next <= steps + 1; ++next) {
      states.save(next, state_of(next), {}, plan.is_best(next));
      require(number_on(disk, states.path_of(next)) == next, "a later save is not there");
      require(number_on(disk, states.best_path()) == plan.best(next),
              "a later best state is wrong");
    }
    require(std::ssize(states.steps()) <= plan.keep, "too many states are kept");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(when + ": " + error.what());
  }

  std::int64_t points_ = 0, each_ = 1, step_ = 1, cases_ = 0;
  std::vector<Plan> plans_;
  std::int64_t found_[2] = {};
};

}  // namespace

void folders(std::int64_t count) {
  const Quiet quiet;
  Folders(count == 0 ? 100'000 : count).run();
}

}  // namespace campaign
