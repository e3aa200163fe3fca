// Every save of every life is cut short at every operation, by each fault; then the power goes, and
// any part of what was not synced is gone.
#include <cstdio>

#include "state/campaign/lives.hpp"

namespace campaign {
namespace {

class Crash {
 public:
  explicit Crash(std::int64_t count) : lives_(all_lives()) {
    for (const Life& life : lives_) points_ += 3 * (points_of(life) + 1);
    each_ = std::max<std::int64_t>(1, count / points_);
    step_ = std::max<std::int64_t>(1, points_ * 8 / count) | 1;  // each has some cases at least
  }
  void run() {
    for (const Life& life : lives_) {
      const std::int64_t points = points_of(life);
      for (const Fault fault : {Fault::PowerLoss, Fault::Full, Fault::Broken})
        for (std::int64_t at = 0; at <= points; ++at)
          if (seen_++ % step_ == 0) cut_short(life, fault, at);
    }
    std::printf(
        "crash: %lld cases at %lld operations of %zu lives (%lld with all there are); loaded: "
        "%lld old, %lld new, %lld none where there was none\n",
        (long long)cases_, (long long)((seen_ + step_ - 1) / step_), lives_.size(),
        (long long)whole_, (long long)loaded_[0], (long long)loaded_[1], (long long)loaded_[2]);
  }

 private:
  static constexpr int next = 100;

  static std::int64_t points_of(const Life& life) {
    Disk disk = life.disk;
    disk.plan(Fault::PowerLoss, Disk::never);
    save_number(disk, next);
    return disk.operations();
  }
  /// What must load afterwards. A save that came to its end is on the disk.
  Life saved(Life life, int number, Fault fault, std::int64_t at) {
    static constexpr const char* words[] = {"loss of power", "full disk", "broken disk"};
    life.name += "; saving " + std::to_string(number) + ", " + words[static_cast<int>(fault)] +
                 " at " + std::to_string(at);
    life.disk.plan(fault, at);
    life.may.insert(number);
    try {
      save_number(life.disk, number);
      life.may = {number};
    } catch (const ikebana::FileFailed&) {
    } catch (const Disk::LostPower&) {
    }
    return life;
  }
  int expect(Life& life) {
    int number = nothing;
    try {
      number = number_on(life.disk);
      require(life.may.count(number) != 0, "loaded " + std::to_string(number));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("crash: " + life.name + ": " + error.what());
    }
    ++cases_;
    ++loaded_[number == nothing ? 2 : number >= next ? 1 : 0];
    return number;
  }
  /// Whoever saves again, undisturbed, has the new state for good.
  void save_again(Life life, Choices& choices) {
    life = saved(std::move(life), next + 7, Fault::PowerLoss, Disk::never);
    expect(life);
    lose(life, choices);
  }
  void cut_short(const Life& life, Fault fault, std::int64_t at) {
    Life after = saved(life, next, fault, at);
    Life lived = after;
    lived.disk.revive();
    expect(lived);
    Choices by_chance = Choices::by_chance(static_cast<std::uint64_t>(cases_));
    save_again(lived, by_chance);
    if (fault != Fault::PowerLoss) cut_again(lived, by_chance);
    lose(after);
  }
  void lose(const Life& life) {
    Choices in_turn = Choices::in_turn();
    bool more = true;
    std::int64_t n = 0;
    for (; more && n < (each_ + 1) / 2; ++n) lose(life, in_turn), more = in_turn.next();
    whole_ += more ? 0 : 1;
    Choices by_chance = Choices::by_chance(static_cast<std::uint64_t>(cases_) + 1);
    for (; more && n < each_; ++n) {
      Life found = lose(life, by_chance);
      if (n % 4 == 0) save_again(found, by_chance);
      if (n % 4 == 1) cut_again(found, by_chance);
    }
  }
  Life lose(const Life& life, Choices& choices) {
    Life found = life;
    found.disk = life.disk.after_loss(choices);
    found.name += "; lost";
    found.may = {expect(found)};
    return found;
  }
  /// The save after is cut short as well, and the one after that.
  void cut_again(Life life, Choices& choices) {
    for (const int number : {next + 1, next + 2}) {
      const Fault fault = static_cast<Fault>(choices.pick(3));
      life = saved(std::move(life), number, fault, static_cast<std::int64_t>(choices.pick(12)));
      life.disk.revive();
      if (choices.pick(3) > 0) life = lose(life, choices);
      else expect(life);
    }
    save_again(std::move(life), choices);
  }

  std::vector<Life> lives_;
  std::int64_t step_ = 1, seen_ = 0, points_ = 0, each_ = 0, cases_ = 0, whole_ = 0;
  std::int64_t loaded_[3] = {};
};

}  // namespace

void crash(std::int64_t count) {
  const Quiet quiet;
  Crash(count == 0 ? 400'000 : count).run();
}

}  // namespace campaign
