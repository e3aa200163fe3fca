#pragma once
// Makes the decisions of a simulation: all combinations one after another, or random ones.
#include <cstdint>
#include <random>
#include <vector>

namespace campaign {

/// `pick` decides; `next` begins the next case. With `chance` each case is random, and so is the
/// probability with which changes survive: with a fixed one, a dozen sectors would never all
/// survive.
class Choices {
 public:
  static Choices in_turn() { return Choices(false, 0); }
  static Choices by_chance(std::uint64_t seed) { return Choices(true, seed); }

  /// Draws a number from 0 to n - 1.
  std::uint64_t pick(std::uint64_t n) {
    if (chance_) return n < 2 ? 0 : random_() % n;
    if (at_ == digits_.size()) digits_.push_back({0, n});
    return digits_[at_++].value;
  }
  bool survives() { return chance_ ? random_() % 16 < odds_ : pick(2) == 1; }
  /// Begins another file or list of changes, which has its own probability.
  void begin_another() {
    constexpr std::uint64_t odds[] = {0, 1, 8, 15, 16};
    if (chance_) odds_ = odds[random_() % 5];
  }
  /// Returns false after the last case; random cases have no last one.
  bool next() {
    at_ = 0;
    if (chance_) return true;
    while (!digits_.empty() && ++digits_.back().value >= digits_.back().of) digits_.pop_back();
    return !digits_.empty();
  }

 private:
  struct Digit {
    std::uint64_t value, of;
  };
  Choices(bool chance, std::uint64_t seed) : chance_(chance), random_(seed) {}

  bool chance_;
  std::mt19937_64 random_;
  std::uint64_t odds_ = 8;
  std::vector<Digit> digits_;
  std::size_t at_ = 0;
};

}  // namespace campaign
