#pragma once
// Gives each unit a range in what a profiler records, so that its operators are known as its own.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/range.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

class ProfilerLoop;

/// RAII: the forward of a unit, as a range. While a profiler records, it remembers the nodes that
/// autograd made in it, so that operators of backward are known to be the unit's.
class ProfiledUnit {
 public:
  ProfiledUnit(ProfilerLoop& loop, const std::string& range);
  ~ProfiledUnit();
  ProfiledUnit(const ProfiledUnit&) = delete;
  ProfiledUnit& operator=(const ProfiledUnit&) = delete;

 private:
  ProfilerLoop& loop_;
  const std::string& name_;
  ikebana::Range range_;
  std::uint64_t first_node_;
};

/// Returns the names of the units' ranges: `unit: blocks.0`.
std::vector<std::string> unit_ranges(const UnitTable& table);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profiled_unit.ipp>
#endif
