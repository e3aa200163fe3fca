// Every save of every scenario is interrupted at every operation, by each fault; then the power
// fails, and any part of what was not synced is lost.
#include <cstdio>

#include "state/campaign/scenarios.hpp"

namespace campaign {
namespace {

class Crash {
 public:
  explicit Crash(std::int64_t count) : scenarios_(all_scenarios()) {
    for (const Scenario& scenario : scenarios_) points_ += 3 * (points_of(scenario) + 1);
    each_ = std::max<std::int64_t>(1, count / points_);
    step_ = std::max<std::int64_t>(1, points_ * 8 / count) | 1;  // so that each has some cases
  }
  void run() {
    for (const Scenario& scenario : scenarios_) {
      const std::int64_t points = points_of(scenario);
      for (const Fault fault : {Fault::PowerLoss, Fault::Full, Fault::Broken})
        for (std::int64_t at = 0; at <= points; ++at)
          if (seen_++ % step_ == 0) interrupt(scenario, fault, at);
    }
    std::printf(
        "crash: %lld cases at %lld operations of %zu scenarios (%lld with all there are); loaded: "
        "%lld old, %lld new, %lld none where there was none\n",
        (long long)cases_, (long long)((seen_ + step_ - 1) / step_), scenarios_.size(),
        (long long)whole_, (long long)loaded_[0], (long long)loaded_[1], (long long)loaded_[2]);
  }

 private:
  static constexpr int next = 100;

  static std::int64_t points_of(const Scenario& scenario) {
    Disk disk = scenario.disk;
    disk.plan(Fault::PowerLoss, Disk::never);
    save_number(disk, next);
    return disk.operations();
  }
  /// Returns the scenario after a save, with the states that may load. A save that returned is
  /// durable.
  Scenario saved(Scenario scenario, int number, Fault fault, std::int64_t at) {
    static constexpr const char* fault_names[] = {"loss of power", "full disk", "broken disk"};
    scenario.name += "; saving " + std::to_string(number) + ", " +
                     fault_names[static_cast<int>(fault)] + " at " + std::to_string(at);
    scenario.disk.plan(fault, at);
    scenario.may.insert(number);
    try {
      save_number(scenario.disk, number);
      scenario.may = {number};
    } catch (const ikebana::FileFailed&) {
    } catch (const Disk::LostPower&) {
    }
    return scenario;
  }
  int expect(Scenario& scenario) {
    int number = nothing;
    try {
      number = number_on(scenario.disk);
      require(scenario.may.count(number) != 0, "loaded " + std::to_string(number));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("crash: " + scenario.name + ": " + error.what());
    }
    ++cases_;
    ++loaded_[number == nothing ? 2 : number >= next ? 1 : 0];
    return number;
  }
  /// A later save without faults is durable.
  void save_again(Scenario scenario, Choices& choices) {
    scenario = saved(std::move(scenario), next + 7, Fault::PowerLoss, Disk::never);
    expect(scenario);
    lose(scenario, choices);
  }
  void interrupt(const Scenario& scenario, Fault fault, std::int64_t at) {
    Scenario after = saved(scenario, next, fault, at);
    Scenario killed = after;
    killed.disk.revive();
    expect(killed);
    Choices by_chance = Choices::by_chance(static_cast<std::uint64_t>(cases_));
    save_again(killed, by_chance);
    if (fault != Fault::PowerLoss) interrupt_again(killed, by_chance);
    lose(after);
  }
  void lose(const Scenario& scenario) {
    Choices in_turn = Choices::in_turn();
    bool more = true;
    std::int64_t n = 0;
    for (; more && n < (each_ + 1) / 2; ++n) lose(scenario, in_turn), more = in_turn.next();
    whole_ += more ? 0 : 1;
    Choices by_chance = Choices::by_chance(static_cast<std::uint64_t>(cases_) + 1);
    for (; more && n < each_; ++n) {
      Scenario found = lose(scenario, by_chance);
      if (n % 4 == 0) save_again(found, by_chance);
      if (n % 4 == 1) interrupt_again(found, by_chance);
    }
  }
  Scenario lose(const Scenario& scenario, Choices& choices) {
    Scenario found = scenario;
    found.disk = scenario.disk.after_loss(choices);
    found.name += "; lost";
    found.may = {expect(found)};
    return found;
  }
  /// The next two saves are interrupted as well.
  void interrupt_again(Scenario scenario, Choices& choices) {
    for (const int number : {next + 1, next + 2}) {
      const Fault fault = static_cast<Fault>(choices.pick(3));
      scenario =
          saved(std::move(scenario), number, fault, static_cast<std::int64_t>(choices.pick(12)));
      scenario.disk.revive();
      if (choices.pick(3) > 0) scenario = lose(scenario, choices);
      else expect(scenario);
    }
    save_again(std::move(scenario), choices);
  }

  std::vector<Scenario> scenarios_;
  std::int64_t step_ = 1, seen_ = 0, points_ = 0, each_ = 0, cases_ = 0, whole_ = 0;
  std::int64_t loaded_[3] = {};
};

}  // namespace

void crash(std::int64_t count) {
  const Quiet quiet;
  Crash(count == 0 ? 400'000 : count).run();
}

}  // namespace campaign
