#pragma once
// Places units and operators under the bounds of this machine.
#include <cstdint>
#include <ikebana/observe/profile_result.hpp>
#include <ikebana/observe/unit_summary.hpp>
#include <ikebana/profiling/machine_bounds.hpp>
#include <ikebana/profiling/operator_totals.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// A limit of a unit or an operator.
enum class RooflineLimit {
  Unknown,   ///< it computes no products and moves no bytes, or a bound is not known
  Products,  ///< the speed of matrix products
  Copies,    ///< the speed of reading and writing memory
  Overhead,  ///< the cost of a call: its calls are short, and far below both bounds
  Caches     ///< no bound: it moves bytes faster than a copy, since its tensors fit into caches
};

/// One unit or operator: what it computes and moves in one step, and its time. Under the bounds of
/// a machine it takes at least the time of its products at the matmul bound, and at least the time
/// of its bytes at the copy bound. Source: the roofline model (Williams, Waterman, Patterson 2009).
struct RooflinePoint {
  std::string name = {};   ///< the name of the unit or operator
  std::int64_t calls = 0;  ///< calls of the operator, or of the unit's operators, per step
  std::int64_t flops = 0;  ///< floating-point operations of products per step
  std::int64_t bytes = 0;  ///< bytes that operators read and write per step
  double seconds = 0;      ///< seconds per step
  at::ScalarType dtype = at::kFloat;  ///< the dtype of most of its products

  /// Returns the arithmetic intensity, in operations per byte; 0 if no bytes are known.
  double intensity() const;
  /// Returns the operations per second.
  double flops_per_second() const;
  /// Returns the bytes per second.
  double bytes_per_second() const;
  /// Returns the operations per second that these bounds allow at its intensity: the smaller one of
  /// the matmul bound of its dtype, and the intensity times the copy bound.
  double attainable(const MachineBounds& bounds) const;
  /// Returns the least seconds per step that these bounds allow; 0 if nothing is known.
  double least_seconds(const MachineBounds& bounds) const;
  /// Returns the reached part of what the bounds allow: `least_seconds` divided by `seconds`. It is
  /// above 1 if its tensors fit into caches, whose speed no bound has, and 0 if nothing is known.
  double share(const MachineBounds& bounds) const;
  /// Returns true if its bytes take longer than its products at these bounds.
  bool is_memory_bound(const MachineBounds& bounds) const;
  /// Returns what limits it. Overhead: at the bounds a call would take less than 2 us on average,
  /// and it takes more than twice as long; dispatch and allocation take microseconds of each call.
  RooflineLimit limit(const MachineBounds& bounds) const;
};

/// Units and operators under the bounds of this machine. `<<` prints `table()`.
struct Roofline {
  MachineBounds bounds = {};                  ///< the bounds
  std::vector<RooflinePoint> units = {};      ///< the units with any time
  std::vector<RooflinePoint> operators = {};  ///< the operators with any time

  /// Returns the units, then the operators, those with the most time first and `rows` of each at
  /// most, and under them the bounds.
  std::string table(std::size_t rows = 20) const;
  /// Returns lines of comma-separated values, with all numbers per step, the titles first.
  std::string csv() const;
  /// Returns a picture: operations per second over operations per byte, both logarithmic, with a
  /// line for each bound. Units and operators without products are not in it.
  std::string svg() const;
};

std::ostream& operator<<(std::ostream& out, const Roofline& roofline);

/// Places units, by their own times, and operators, by the times of a profile, under bounds.
/// `totals` are of one step (`count_operators`), `averages` of `steps` steps of the same training,
/// by name alone. An operator has the profile's time with what it calls, if the profile has as many
/// calls of it as `totals`; else some of its calls are within other operators, and it has the mean
/// time of a call without what it calls, for each call of `totals`. On an accelerator times are
/// times of kernels. Views and operators that the profile does not have are left out. Throws
/// BadValue if the averages have another number of steps, and for bounds of a CPU with the times of
/// an accelerator. Units have the dtype of most products of `totals`.
Roofline roofline(const MachineBounds& bounds, const UnitSummary& units,
                  const OperatorTotals& totals, const KeyAverages& averages, std::int64_t steps);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/roofline.ipp>
#include <ikebana/profiling/impl/roofline_plot.ipp>
#endif
