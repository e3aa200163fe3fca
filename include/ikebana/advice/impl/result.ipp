#pragma once
#include <array>
#include <cstdio>
#include <ikebana/advice/result.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace ikebana::detail {

/// Returns the kinds of memory, in the order of the table.
inline std::vector<std::pair<const char*, std::int64_t>> kinds(const Estimate& e) {
  return {{"parameters", e.parameters},
          {"gathered copies", e.gathered},
          {"buffers", e.buffers},
          {"gradients", e.gradients},
          {"optimizer state", e.optimizer_state},
          {"averages", e.averages},
          {"activations", e.activations},
          {"batch", e.batch},
          {"other", e.other},
          {"offloaded", e.offloaded},
          {"between steps", e.between_steps},
          {"peak", e.peak}};
}

/// Writes `gathered copies` as `gathered_copies`.
inline std::string identifier(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

inline std::string unit_columns(const UnitMemory& unit) {
  std::string columns;
  for (const std::int64_t bytes :
       {unit.parameters, unit.gradients, unit.optimizer_state, unit.activations})
    columns += right(short_bytes(bytes), 13);
  return columns;
}

inline std::string unit_row(const std::string& name, const UnitMemory& unit) {
  return "  " + left(name, 34) + unit_columns(unit) + "\n";
}

/// Writes the rows of units. Units that follow each other and have the same columns share a row,
/// which has the bytes of each.
inline std::string unit_rows(const std::vector<UnitMemory>& units) {
  std::string rows;
  for (std::size_t begin = 0; begin < units.size();) {
    std::size_t end = begin + 1;
    const std::string columns = unit_columns(units[begin]);
    while (begin > 0 && end < units.size() && unit_columns(units[end]) == columns) ++end;
    std::string name = begin == 0 ? "(no unit's)" : units[begin].name;
    if (end - begin > 1)
      name += " .. " + units[end - 1].name + ", each of " + std::to_string(end - begin);
    rows += unit_row(name, units[begin]);
    begin = end;
  }
  return rows;
}

inline std::string per_parameter(std::int64_t bytes, std::int64_t elements) {
  std::array<char, 48> text{};
  std::snprintf(
      text.data(), text.size(), "%.2f bytes per parameter",
      static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(elements, 1)));
  return text.data();
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string Estimate::table() const {
  const bool is_of_step = peak > 0;
  std::string text =
      (!is_of_step ? "memory held between steps, on "
                   : std::string("memory of training, ") +
                         (is_measured ? "measured" : "estimated from shapes") + ", on ") +
      device;
  if (ranks > 1) text += ", rank " + std::to_string(rank) + " of " + std::to_string(ranks);
  text += ", " + std::to_string(elements) + " parameters\n";
  for (const auto& [name, bytes] : detail::kinds(*this)) {
    const std::string kind = name;
    if (bytes == 0 && !(is_of_step && kind == "activations")) continue;
    text += "  " + detail::left(kind, 18) + detail::right(detail::short_bytes(bytes), 12);
    if (kind == "parameters" || kind == "gradients" || kind == "optimizer state")
      text += "  " + detail::per_parameter(bytes, elements);
    if (kind == "activations") text += "  of one microbatch";
    if (kind == "offloaded")
      text += is_offloaded_to_disk ? "  of these, on a disk" : "  of these, on the host";
    if (kind == "peak")
      text += std::string("  in ") + detail::phase_name(peak_phase) +
              (peak_unit.empty() ? "" : " of " + peak_unit);
    text += "\n";
  }
  text += "  parameters, gradients and optimizer state: " +
          detail::per_parameter(parameters + gradients + optimizer_state, elements) + "\n";
  if (units.size() < 2) return text;
  text += "  " + detail::left("unit", 34);
  for (const char* column : {"parameters", "gradients", "optimizer", "activations"})
    text += detail::right(column, 13);
  return text + "\n" + detail::unit_rows(units);
}

IKEBANA_INLINE std::string Estimate::csv() const {
  std::string text = "kind,bytes\n";
  for (const auto& [name, bytes] : detail::kinds(*this))
    text += detail::identifier(name) + "," + std::to_string(bytes) + "\n";
  return text;
}

IKEBANA_INLINE std::string Estimate::json() const {
  detail::JsonWriter json({.spaces = true});
  const auto unit_json = [&](const UnitMemory& unit) {
    json.member("name", unit.name);
    json.member("parameters", unit.parameters);
    json.member("gradients", unit.gradients);
    json.member("optimizer_state", unit.optimizer_state);
    json.member("activations", unit.activations);
  };
  json.object([&] {
    for (const auto& [name, bytes] : detail::kinds(*this))
      json.member(detail::identifier(name), bytes);
    json.member("peak_phase", detail::phase_name(peak_phase));
    json.member("peak_unit", peak_unit);
    json.member("elements", elements);
    json.member("is_measured", is_measured);
    json.member("rank", rank), json.member("ranks", ranks);
    json.member("device", device);
    json.array("units", [&] {
      for (const UnitMemory& unit : units) json.object([&] { unit_json(unit); });
    });
  });
  return std::move(json).text() + "\n";
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const Estimate& estimate) {
  return out << estimate.table();
}

}  // namespace ikebana
