#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/profiled_unit.hpp>
#include <ikebana/observe/profiler_loop.hpp>

namespace ikebana::detail {

inline constexpr std::string_view unit_prefix = "unit: ";

IKEBANA_INLINE ProfiledUnit::ProfiledUnit(ProfilerLoop& loop, const std::string& range)
    : loop_(loop), name_(range), range_(range), first_node_(at::sequence_number::peek()) {}

IKEBANA_INLINE ProfiledUnit::~ProfiledUnit() {
  const std::uint64_t end = at::sequence_number::peek();
  if (!loop_.is_recording() || end == first_node_) return;
  try {
    loop_.add({at::RecordFunction::currentThreadId(), first_node_, end,
               name_.substr(unit_prefix.size())});
  } catch (const std::bad_alloc&) {  // its backward is then shown without a unit
  }
}

IKEBANA_INLINE std::vector<std::string> unit_ranges(const UnitTable& table) {
  std::vector<std::string> ranges;
  for (const Unit& unit : table.units())
    ranges.push_back(std::string(unit_prefix) + (unit.is_root() ? "(model)" : unit.name));
  return ranges;
}

}  // namespace ikebana::detail
