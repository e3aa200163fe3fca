#pragma once
// Defines what Observe<EachUnit> says of the units of a model.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// One unit of a model, without the units within it. Times are means over steps, and all else is of
/// one step.
struct UnitTimes {
  std::string name = {};   ///< the name in `named_modules`; empty: the model, outside of its units
  std::size_t outer = 0;   ///< the index of the unit around it; 0: the model
  double forward = 0;      ///< seconds per step
  double backward = 0;     ///< seconds per step, with its recompute under Checkpoint
  double share = 0;        ///< its part of all forward and backward, from 0 to 1
  std::int64_t calls = 0;  ///< forwards per step; 0 for a module that is no unit
  std::int64_t flops = 0;  ///< floating-point operations of products, in forward and backward
  std::int64_t bytes = 0;  ///< what its operators read and write, each argument and result once
  std::int64_t operators = 0;    ///< their calls
  std::int64_t activations = 0;  ///< bytes that its first forward leaves for backward, with its
                                 ///< results
  std::int64_t parameters = 0;   ///< elements of its parameters

  double seconds() const { return forward + backward; }  ///< both together
};

/// Where the time of a model goes. `<<` prints its tree.
struct UnitSummary {
  std::int64_t steps = 0;             ///< the steps over which times are averaged
  std::vector<UnitTimes> units = {};  ///< the units in the order of registration, the model first

  /// Returns a row for each unit, those within another one indented below it.
  std::string tree() const;
  /// Returns the rows by time, the longest first, and up to `rows` of them.
  std::string table(std::size_t rows = 20) const;
  /// Returns lines of comma-separated values, with seconds and bytes, the titles first.
  std::string csv() const;
  /// Returns the times as stacks, one a line with its microseconds: `model;block0;forward 123`. So
  /// flamegraph.pl and speedscope.app draw them.
  std::string flame_graph() const;
};

std::ostream& operator<<(std::ostream& out, const UnitSummary& summary);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/unit_summary.ipp>
#endif
