#pragma once
// Which unit computes: in forward the one that runs, in backward the one whose forward has made the
// node.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/hooks/unit_activations.hpp>
#include <optional>

namespace ikebana::detail {

/// The units that a microbatch runs. Autograd numbers the nodes that it makes, so the numbers from
/// the beginning of a unit's forward to its end are that unit's, and nothing is registered.
class UnitNodes {
 public:
  /// A unit whose forward runs.
  struct Running {
    std::size_t unit;
    std::uint64_t first_node;
    UnitActivations::Outer bytes;
  };

  void begin_forward() noexcept { running_.clear(), ended_.clear(); }
  void begin(std::size_t unit, UnitActivations::Outer bytes) {
    running_.push_back({unit, at::sequence_number::peek(), bytes});
  }
  /// The innermost one ends; no value: none runs.
  std::optional<Running> end() {
    if (running_.empty()) return {};
    const Running last = running_.back();
    running_.pop_back();
    ended_.push_back({last.unit, last.first_node, at::sequence_number::peek()});
    return last;
  }
  /// In this phase; 0: no unit's.
  std::size_t unit(Phase phase) const noexcept {
    if (phase == Phase::Forward) return running_.empty() ? 0 : running_.back().unit;
    const auto node = torch::autograd::get_current_node();
    if (phase != Phase::Backward || node == nullptr) return 0;
    for (const Ended& one : ended_)
      if (one.first <= node->sequence_nr() && node->sequence_nr() < one.end) return one.unit;
    return 0;
  }

 private:
  /// An inner unit comes before the one around it.
  struct Ended {
    std::size_t unit;
    std::uint64_t first, end;
  };
  std::vector<Running> running_;
  std::vector<Ended> ended_;
};

}  // namespace ikebana::detail
