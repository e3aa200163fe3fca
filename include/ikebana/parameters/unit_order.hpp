#pragma once
// In which order units are run, so that the next one can be gathered ahead.
#include <cstdint>
#include <optional>
#include <vector>

namespace ikebana {

/// The order of units in this forward and in the one before it. Backward needs units in the reverse
/// of the order in which this forward left them.
class UnitOrder {
 public:
  /// A forward begins.
  void begin() {
    if (!entered_.empty()) last_.swap(entered_);
    entered_.clear(), left_.clear();
  }
  /// After an exception: of what was run then, nothing is expected again.
  void forget() noexcept { last_.clear(), entered_.clear(), left_.clear(); }
  void begin_step() noexcept { of_step_ = first_hash; }
  /// A unit is run. Returns its place in this forward.
  std::size_t enter(std::size_t unit, bool trains) {
    entered_.push_back(unit);
    if (trains) of_step_ = (of_step_ ^ (unit + 1)) * 0x100000001b3;
    return entered_.size() - 1;
  }
  /// The unit that follows, if the forward before ran the same one at this place.
  std::optional<std::size_t> after(std::size_t place) const {
    if (place + 1 >= last_.size() || last_[place] != entered_[place]) return {};
    return last_[place + 1];
  }
  /// A unit that has a backward was run. Returns its place among those.
  std::size_t leave(std::size_t unit) {
    left_.push_back(unit);
    return left_.size() - 1;
  }
  /// The unit whose backward follows.
  std::optional<std::size_t> before(std::size_t place) const {
    if (place == 0 || place > left_.size()) return {};
    return left_[place - 1];
  }
  /// A number of the order in which the step's microbatches ran the units.
  std::uint64_t of_step() const { return of_step_; }

 private:
  static constexpr std::uint64_t first_hash = 0xcbf29ce484222325;  // FNV-1a
  std::vector<std::size_t> last_, entered_, left_;
  std::uint64_t of_step_ = first_hash;
};

}  // namespace ikebana
