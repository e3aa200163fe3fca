#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/observe/unit_summary.hpp>

namespace ikebana::detail {

inline std::string unit_titles() {
  std::string text = "  " + left("unit", 30);
  for (const char* title : {"share", "forward", "backward", "FLOP", "FLOP/s", "moved"})
    text += right(title, 10);
  return text + right("activations", 13) + right("parameters", 12) + "\n";
}

inline std::string unit_row(const UnitTimes& unit, std::size_t depth) {
  const double rate = unit.seconds() > 0 ? static_cast<double>(unit.flops) / unit.seconds() : 0;
  return "  " +
         left(std::string(2 * depth, ' ') + (unit.name.empty() ? "(model)" : unit.name), 30) +
         right(fixed(unit.share * 100, 1) + " %", 10) + right(fixed(unit.forward * 1e3, 3), 10) +
         right(fixed(unit.backward * 1e3, 3), 10) +
         right(short_number(static_cast<double>(unit.flops)), 10) + right(short_number(rate), 10) +
         right(short_bytes(unit.bytes), 10) + right(short_bytes(unit.activations), 13) +
         right(short_number(static_cast<double>(unit.parameters)), 12) + "\n";
}

inline std::string unit_heading(const UnitSummary& summary) {
  return "units over " + std::to_string(summary.steps) +
         " steps, times in ms per step, each without the units within it\n" + unit_titles();
}

/// Returns the number of units around a unit, without the model.
inline std::size_t depth_of(const UnitSummary& summary, std::size_t unit) {
  std::size_t depth = 0;
  for (; summary.units[unit].outer != 0; unit = summary.units[unit].outer) ++depth;
  return depth;
}

/// Calls `f(unit)` for each unit within `outer`, and those within it, in their order.
template <class F>
void each_unit_within(const UnitSummary& summary, std::size_t outer, const F& f) {
  for (std::size_t u = 1; u < summary.units.size(); ++u)
    if (summary.units[u].outer == outer) f(u), each_unit_within(summary, u, f);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string UnitSummary::tree() const {
  std::string text = detail::unit_heading(*this);
  if (units.empty()) return text;
  text += detail::unit_row(units[0], 0);
  detail::each_unit_within(*this, 0, [&](std::size_t u) {
    text += detail::unit_row(units[u], 1 + detail::depth_of(*this, u));
  });
  return text;
}

IKEBANA_INLINE std::string UnitSummary::table(std::size_t rows) const {
  std::vector<UnitTimes> sorted = units;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.seconds() > b.seconds(); });
  std::string text = detail::unit_heading(*this);
  for (std::size_t i = 0; i < std::min(rows, sorted.size()); ++i)
    text += detail::unit_row(sorted[i], 0);
  return text;
}

IKEBANA_INLINE std::string UnitSummary::csv() const {
  std::string text =
      "unit,outer,share,forward,backward,calls,flops,bytes,operators,activations,parameters\n";
  for (const UnitTimes& u : units) {
    text += detail::csv_field(u.name) + "," + detail::csv_field(units[u.outer].name);
    for (const double number : {u.share, u.forward, u.backward})
      text += "," + detail::exact_text(number);
    for (const std::int64_t number :
         {u.calls, u.flops, u.bytes, u.operators, u.activations, u.parameters})
      text += "," + std::to_string(number);
    text += "\n";
  }
  return text;
}

IKEBANA_INLINE std::string UnitSummary::flame_graph() const {
  std::string text;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::string stack;
    for (std::size_t one = u; one != 0; one = units[one].outer)
      stack = ";" + units[one].name + stack;
    auto add = [&](const char* direction, double seconds) {
      const auto microseconds = std::llround(seconds * 1e6);
      if (microseconds > 0)
        text += "model" + stack + ";" + direction + " " + std::to_string(microseconds) + "\n";
    };
    add("forward", units[u].forward), add("backward", units[u].backward);
  }
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const UnitSummary& summary) {
  return out << summary.tree();
}

}  // namespace ikebana
