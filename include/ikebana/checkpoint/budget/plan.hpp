#pragma once
// Computes the costs of a plan of Checkpoint<Budget>: the peak of each moment of a step, and the
// time of its recomputes, from the measurements of a step under Checkpoint<Full>.
#include <cstdint>
#include <limits>
#include <vector>

namespace ikebana::detail {

/// The treatment of a unit. A unit that is `Joined` is recomputed in one segment with the unit
/// before it, which is `Full` or `Joined` itself.
enum class Choice : std::uint8_t { Keep, Selective, Full, Joined };
/// The choice of each unit, in the order of forward.
using Plan = std::vector<Choice>;

/// The measurements of one unit. Levels and peaks are bytes in a step under Full in which no other
/// unit keeps anything. Times are nanoseconds, over all microbatches.
struct UnitCosts {
  std::int64_t unit = 0;          ///< index of the unit
  bool is_measured = true;        ///< false: only Full is known to work
  bool joins = false;             ///< it takes what the unit before it returned
  std::int64_t forward = 0;       ///< peak while forward runs, nothing being kept
  std::int64_t forward_keep = 0;  ///< peak while forward runs, if its activations are kept
  std::int64_t forward_selective = 0;
  std::int64_t after_forward = 0;  ///< peak until the next unit's forward; the last: until backward
  std::int64_t begin = 0;          ///< level when its recompute begins
  std::int64_t rise = 0;           ///< the rise of memory in a recompute, up to the last tensor
                                   ///< that is saved
  std::int64_t rise_selective = 0;
  std::int64_t rise_whole = 0;  ///< the rise in a recompute to the end, gathering included
  std::int64_t backward = 0;    ///< peak after its recompute, until the next one
  std::int64_t keep = 0;        ///< kept by Keep, beyond what Full keeps
  std::int64_t selective = 0;   ///< kept by Selective, beyond what Full keeps
  std::int64_t result = 0;      ///< what its forward returns
  std::int64_t input = 0;       ///< bytes that are freed if it is Joined
  std::int64_t unsaved = 0;     ///< bytes of its input that Keep frees: autograd does not save them
  std::int64_t time = 0;        ///< the time of a recompute, up to the last tensor that is saved
  std::int64_t time_selective = 0;
  std::int64_t time_rest = 0;  ///< the time of a recompute after that
  /// The operators of a recompute that Selective keeps, up to the last tensor that is saved.
  std::int64_t products = 0;

  bool allows(Choice choice) const;
  /// Returns the bytes that it keeps from its forward to its backward, beyond what Full keeps.
  std::int64_t kept(Choice choice) const;
  /// Returns the time of its recompute, if it ends its segment.
  std::int64_t recompute(Choice choice) const;
  /// Returns the peak within its own forward and backward, if it is in no segment with others.
  std::int64_t peak(Choice choice) const;
};

/// The costs of all units, from which a plan is made. The last unit's `after_forward` includes the
/// loss.
struct Costs {
  std::vector<UnitCosts> units;
  std::int64_t fixed = std::numeric_limits<std::int64_t>::min() / 4;  ///< peak of all other moments

  std::size_t size() const { return units.size(); }
};

/// The costs of a segment that begins with a unit and is extended by the units that follow. Bytes
/// are relative to what earlier units keep.
class Segment {
 public:
  Segment(const Costs& costs, std::size_t first);
  void extend();
  /// Returns the peak of all moments except `after_forward` of the last unit.
  std::int64_t peak() const;
  std::int64_t kept() const { return -freed_; }
  std::int64_t time() const { return time_ + unit(last_).time; }
  std::size_t last() const { return last_; }

 private:
  const UnitCosts& unit(std::size_t i) const { return costs_->units[i]; }

  const Costs* costs_;
  std::size_t last_ = 0;
  std::int64_t peaks_ = 0;                                             // the peaks of forward and
                                                                       // backward
  std::int64_t whole_ = std::numeric_limits<std::int64_t>::min() / 4;  // the peaks of all
                                                                       // recomputes but the last
  std::int64_t recomputed_ = 0;  // what units before the last hold after their recompute
  std::int64_t freed_ = 0;       // inputs that the segment does not keep
  std::int64_t unsaved_ = 0;     // the part of `freed_` that is freed again after the recompute
  std::int64_t time_ = 0;        // the time of the units before the last
};

/// The memory and the time that a plan is predicted to need.
struct Prediction {
  std::int64_t peak = 0;  ///< bytes
  std::int64_t time = 0;  ///< nanoseconds of recompute
  std::int64_t kept = 0;  ///< bytes from forward to backward, beyond what Full keeps
};

/// Adds up the costs of a plan, moment by moment.
Prediction predict(const Costs& costs, const Plan& plan);

/// Costs that were measured without values, and so without times: a recompute is taken to cost the
/// bytes that it computes.
Costs by_bytes(Costs costs);

/// Returns the costs for a budget of activations alone. Only what is kept counts, and Full keeps
/// `full` bytes of it.
Costs kept_alone(Costs costs, std::int64_t full);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plan.ipp>
#endif
