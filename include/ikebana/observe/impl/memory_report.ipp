#pragma once
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/observe/memory_report.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string bytes_row(const std::string& name, std::int64_t bytes) {
  return "  " + left(name, 24) + right(short_bytes(bytes), 12);
}

IKEBANA_INLINE std::string facts_rows(const MemoryFacts& facts) {
  std::string text;
  auto add = [&](const char* name, const std::optional<std::int64_t>& bytes) {
    if (bytes) text += bytes_row(name, *bytes) + "\n";
  };
  if (facts.free && facts.total)
    text += bytes_row("free", *facts.free) + "  of " + short_bytes(*facts.total) + "\n";
  add("resident", facts.resident);
  add("reserved", facts.reserved);
  add("free within used blocks", facts.inactive);
  if (facts.retries.value_or(0) > 0)
    text += "  the cache was emptied " + std::to_string(*facts.retries) +
            " times to find room for an allocation\n";
  return text;
}

inline std::string unit_peak_rows(const std::vector<UnitPeak>& units) {
  std::string text = "  " + left("unit", 34) + right("activations", 13) +
                     right("forward peak", 15) + right("backward peak", 15) + "\n";
  auto peak = [](std::int64_t bytes) { return right(bytes == 0 ? "-" : short_bytes(bytes), 15); };
  for (const UnitPeak& unit : units)
    text += "  " + left(unit.name.empty() ? "(no unit's)" : unit.name, 34) +
            right(short_bytes(unit.activations), 13) + peak(unit.forward_peak) +
            peak(unit.backward_peak) + "\n";
  return text;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string MemoryReport::table() const {
  using detail::bytes_row;
  std::string text = "memory of a step on " + device + "\n" + bytes_row("before", before) + "\n";
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    text += bytes_row(std::string("peak in ") + detail::phase_name(phase), peak_of(phase)) + "\n";
  text += bytes_row("peak", peak) + "  in " + detail::phase_name(peak_phase);
  if (peak_unit != 0) text += " of " + units[peak_unit].name;
  text += "\n" + bytes_row("after", after) + "\n" + detail::facts_rows(facts);
  if (cleaned_up) text += bytes_row("cleaned up before", *cleaned_up) + "\n";
  return units.empty() ? text : text + detail::unit_peak_rows(units);
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const MemoryReport& report) {
  return out << report.table();
}

}  // namespace ikebana
