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
  /// A unit is run. Returns its place in this forward.
  std::size_t enter(std::size_t unit) {
    entered_.push_back(unit);
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
  /// The same number for the same order.
  std::uint64_t signature() const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const std::size_t unit : entered_) hash = (hash ^ unit) * 0x100000001b3;
    return hash;
  }

 private:
  std::vector<std::size_t> last_, entered_, left_;
};

}  // namespace ikebana
