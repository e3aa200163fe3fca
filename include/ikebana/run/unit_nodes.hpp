#pragma once
// Finds the unit that computes: in forward the one that runs, in backward the one whose forward has
// made the node.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/run/unit_activations.hpp>
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
  void begin(std::size_t unit, UnitActivations::Outer bytes);
  /// Ends the innermost unit that runs; no value: no unit runs.
  std::optional<Running> end();
  /// Returns the unit that computes in this phase, or 0 if no unit does.
  std::size_t unit(Phase phase) const noexcept;

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

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/unit_nodes.ipp>
#endif
