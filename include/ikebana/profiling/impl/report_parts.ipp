#pragma once
#include <algorithm>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/profiling/plots.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/report_numbers.hpp>
#include <ikebana/profiling/report_parts.hpp>
#include <ikebana/profiling/roofline_text.hpp>
#include <map>
#include <utility>

namespace ikebana::detail {

inline constexpr std::size_t report_rows = 20;

inline std::string ms_text(double seconds) { return fixed(seconds * 1e3, 3); }

/// Says below a table how many rows are not in it.
inline std::string rows_note(std::size_t all, const char* file) {
  if (all <= report_rows) return {};
  return "The " + std::to_string(report_rows) + " with the most time of " + std::to_string(all) +
         "; " + file + " has all.";
}

inline std::vector<std::string> statistics_row(const std::string& name, const TimeStatistics& s) {
  std::vector<std::string> row{name, std::to_string(s.count)};
  for (const double seconds : {s.mean, s.std, s.min, s.median, s.p95, s.p99, s.max})
    row.push_back(ms_text(seconds));
  return row;
}

inline ReportPart steps_part(const RunProfile& profile) {
  ReportPart part{.id = "steps", .title = "Steps"};
  if (profile.step.count == 0 || profile.step_seconds.empty()) {
    part.text = "The times of steps were not measured.";
    return part;
  }
  part.text =
      "The training as it is, without any measurement within a step. A step's time has the "
      "waiting for its batch.";
  const PlotScale scale = time_scale(profile.step.max);
  part.plots = {{"steps.svg", "Time of each step",
                 line_plot({"Time of each step",
                            "The time of each step in the order of the "
                            "training, median " +
                                duration_text(profile.step.median) + "."},
                           scale, profile.step_seconds)},
                {"step_times.svg", "Steps by their time",
                 histogram_plot({"Steps by their time", "How many steps took how long."}, scale,
                                profile.step_seconds)}};
  part.tables = {{.titles = {"ms", "count", "mean", "std", "min", "median", "p95", "p99", "max"},
                  .rows = {statistics_row("step", profile.step),
                           statistics_row("waiting for data", profile.waiting)}}};
  return part;
}

inline ReportPart phases_part(const RunProfile& profile) {
  ReportPart part{.id = "phases", .title = "Phases"};
  if (profile.phases.phases.empty()) {
    part.text = "The phases of steps were not measured.";
    return part;
  }
  part.text = "Each moment of a step belongs to one phase, so the shares add up to 100 %.";
  ReportTable table{.titles = {"phase", "share", "mean ms", "std", "median", "p95", "p99"}};
  std::vector<PlotBar> bars;
  for (const PhaseTimes& phase : profile.phases.phases) {
    const TimeStatistics& s = phase.seconds;
    bars.push_back({phase.name, s.mean});
    table.rows.push_back({phase.name, percent(phase.share), ms_text(s.mean), ms_text(s.std),
                          ms_text(s.median), ms_text(s.p95), ms_text(s.p99)});
  }
  part.plots = {{"phases.svg", "Phases of a step",
                 stacked_plot({"Phases of a step", "The mean time of each phase of a step."},
                              time_scale(profile.phases.step.mean), bars)}};
  part.tables = {std::move(table)};
  return part;
}

/// Draws bars of times that are sorted, the longest first.
inline std::string largest_bars(const PlotTitle& title, const std::vector<PlotBar>& bars) {
  const double largest = bars.empty() ? 0 : bars.front().value;
  return bar_plot(title, time_scale(largest), bars);
}

inline std::vector<std::string> unit_cells(const UnitTimes& u) {
  const auto flops = static_cast<double>(u.flops);
  const bool has_rate = u.flops > 0 && u.seconds() > 0;
  return {u.name.empty() ? "(model)" : u.name,
          percent(u.share),
          ms_text(u.forward),
          ms_text(u.backward),
          short_number(flops),
          has_rate ? short_number(flops / u.seconds()) : "-",
          short_bytes(u.bytes),
          short_bytes(u.activations),
          short_number(static_cast<double>(u.parameters))};
}

inline ReportPart units_part(const RunProfile& profile) {
  ReportPart part{.id = "units", .title = "Units"};
  if (profile.units.units.empty()) {
    part.text =
        "Units were not measured: the recipe has no Observe<EachUnit>, which Capture refuses.";
    return part;
  }
  part.text =
      "Each unit without the units within it; (model) is what no unit computes. Backward "
      "has the recompute of its unit.";
  std::vector<UnitTimes> sorted = profile.units.units;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.seconds() > b.seconds(); });
  ReportTable table{.titles = {"unit", "share", "forward ms", "backward ms", "FLOP", "FLOP/s",
                               "moved", "activations", "parameters"},
                    .note = rows_note(sorted.size(), "units.csv")};
  std::vector<PlotBar> bars;
  for (std::size_t i = 0; i < std::min(report_rows, sorted.size()); ++i) {
    table.rows.push_back(unit_cells(sorted[i]));
    bars.push_back({table.rows.back()[0], sorted[i].seconds()});
  }
  part.plots = {{"units.svg", "Time of units",
                 largest_bars({"Forward and backward of units, per step",
                               "The units with the most time, the longest first."},
                              bars)}};
  part.tables = {std::move(table)};
  return part;
}

/// Returns the operators of a profile, one row for a name and unit, the one with the most time
/// first.
inline std::vector<ProfileRow> operator_rows(const KeyAverages& averages,
                                             double ProfileRow::* time) {
  std::vector<ProfileRow> rows;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const ProfileRow& row : averages) {
    if (!is_operator(row)) continue;
    const auto [place, is_new] = places.try_emplace({row.key, row.unit}, rows.size());
    if (is_new) {
      rows.push_back(row);
      continue;
    }
    ProfileRow& same = rows[place->second];
    same.count += row.count;
    for (auto field : {&ProfileRow::cpu_time_total, &ProfileRow::self_cpu_time_total,
                       &ProfileRow::device_time_total, &ProfileRow::self_device_time_total})
      same.*field += row.*field;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return a.*time > b.*time; });
  return rows;
}

/// Returns the operators of each unit; without rows if no unit was marked.
inline ReportTable operators_of_units(const RunProfile& profile, double ProfileRow::* time) {
  ReportTable table{
      .titles = {"unit", "operator", "share", "ms per step", "calls per step", "us per call"},
      .texts = 2};
  const KeyAverages averages = profile.profile.key_averages({.by_unit = true});
  if (!has_units(averages)) return table;
  const std::vector<ProfileRow> rows = operator_rows(averages, time);
  const double total = profiled_microseconds(averages);
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, profile.profile.steps));
  for (std::size_t i = 0; i < std::min(report_rows, rows.size()); ++i) {
    const double calls = static_cast<double>(rows[i].count), own = rows[i].*time;
    table.rows.push_back({rows[i].unit.empty() ? "(no unit's)" : rows[i].unit, rows[i].key,
                          percent(own / total), ms_text(own * 1e-6 / steps), rounded(calls / steps),
                          calls > 0 ? rounded(own / calls) : "-"});
  }
  table.note = rows_note(rows.size(), "operators_by_unit.csv");
  return table;
}

inline ReportPart operators_part(const RunProfile& profile) {
  ReportPart part{.id = "operators", .title = "Operators"};
  const bool is_cpu = on_cpu(profile);
  const auto time = is_cpu ? &ProfileRow::self_cpu_time_total : &ProfileRow::self_device_time_total;
  const std::vector<ProfileRow> rows = operator_rows(profile.operators, time);
  const double total = profiled_microseconds(profile.operators);
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, profile.profile.steps));
  if (rows.empty() || !(total > 0)) {
    part.text = "Operators were not recorded.";
    return part;
  }
  part.text = "Times without the operators within them, from a profile of " +
              std::to_string(profile.profile.steps) +
              " steps. While a profiler records, each operator takes about a microsecond more.";
  ReportTable table{.titles = {"operator", "share", "ms per step", "with inner ones",
                               "calls per step", "us per call"},
                    .note = rows_note(rows.size(), "operators.csv")};
  std::vector<PlotBar> bars;
  for (std::size_t i = 0; i < std::min(report_rows, rows.size()); ++i) {
    const ProfileRow& row = rows[i];
    const double calls = static_cast<double>(row.count), own = row.*time;
    table.rows.push_back(
        {row.key, percent(own / total), ms_text(own * 1e-6 / steps),
         ms_text((is_cpu ? row.cpu_time_total : row.device_time_total) * 1e-6 / steps),
         rounded(calls / steps), calls > 0 ? rounded(own / calls) : "-"});
    bars.push_back({row.key, own * 1e-6 / steps});
  }
  part.plots = {{"operators.svg", "Time of operators",
                 largest_bars({"Operators' own time, per step",
                               "The operators with the most time, the longest first."},
                              bars)}};
  part.tables = {std::move(table)};
  if (ReportTable by_unit = operators_of_units(profile, time); !by_unit.rows.empty())
    part.tables.push_back(std::move(by_unit));
  return part;
}

inline ReportTable unit_memory(const MemoryReport& memory) {
  ReportTable table{.titles = {"unit", "activations", "forward peak", "backward peak"}};
  std::vector<UnitPeak> sorted = memory.units;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.activations > b.activations; });
  auto peak = [](std::int64_t bytes) { return bytes == 0 ? "-" : short_bytes(bytes); };
  for (std::size_t i = 0; i < std::min(report_rows, sorted.size()); ++i)
    table.rows.push_back({sorted[i].name.empty() ? "(no unit's)" : sorted[i].name,
                          short_bytes(sorted[i].activations), peak(sorted[i].forward_peak),
                          peak(sorted[i].backward_peak)});
  if (sorted.size() > report_rows)
    table.note = "The " + std::to_string(report_rows) + " with the most activations of " +
                 std::to_string(sorted.size()) + "; memory.csv has all.";
  return table;
}

inline ReportPart memory_part(const RunProfile& profile) {
  ReportPart part{.id = "memory", .title = "Memory"};
  if (!has_memory(profile)) {
    part.text = "The memory of a step was not measured: the recipe has no Observe<Memory>.";
    return part;
  }
  const MemoryReport& memory = profile.memory;
  part.text = "One step on " + memory.device +
              ", with all trainers and tensors of the process. "
              "The peak is in " +
              phase_name(memory.peak_phase);
  if (memory.peak_unit > 0 && memory.peak_unit < memory.units.size())
    part.text += " of " + memory.units[memory.peak_unit].name;
  part.text += ".";
  ReportTable table{.titles = {"moment", "in use", "bytes"}};
  std::vector<PlotBar> bars;
  auto add = [&](const std::string& name, std::int64_t bytes) {
    bars.push_back({name, static_cast<double>(bytes)});
    table.rows.push_back({name, short_bytes(bytes), std::to_string(bytes)});
  };
  add("before the step", memory.before);
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    add(std::string("peak in ") + phase_name(phase), memory.peak_of(phase));
  add("after the step", memory.after);
  part.plots = {{"memory.svg", "Memory in use",
                 bar_plot({"Memory in use", "Bytes in use before, within and after a step."},
                          byte_scale(static_cast<double>(memory.peak)), bars)}};
  part.tables.push_back(std::move(table));
  if (!memory.units.empty()) part.tables.push_back(unit_memory(memory));
  return part;
}

inline ReportTable roofline_table(const std::string& title,
                                  const std::vector<RooflinePoint>& points,
                                  const MachineBounds& bounds) {
  ReportTable table{.titles = {title, "bound", "of bound", "ms per step", "calls", "FLOP per byte",
                               "FLOP/s", "B/s"},
                    .texts = 2,
                    .note = rows_note(points.size(), "roofline.csv")};
  for (const RooflinePoint& p : by_time(points)) {
    if (table.rows.size() == report_rows) break;
    const bool has_products = p.flops > 0;
    table.rows.push_back({p.name, limit_text(p, bounds), roofline_share_text(p, bounds),
                          ms_text(p.seconds), std::to_string(p.calls),
                          has_products ? rounded(p.intensity()) : "-",
                          has_products ? short_number(p.flops_per_second()) : "-",
                          p.bytes > 0 ? short_number(p.bytes_per_second()) : "-"});
  }
  return table;
}

inline ReportPart roofline_part(const RunProfile& profile) {
  ReportPart part{.id = "roofline", .title = "Roofline"};
  const Roofline& roofline = profile.roofline;
  if (roofline.units.empty() && roofline.operators.empty()) {
    part.text = "No unit and no operator could be placed under the bounds of this machine.";
    return part;
  }
  part.text =
      "What this machine allows, and how much of it is reached. A point on a line cannot "
      "become faster; one below the sloped line waits for memory, one below a level line "
      "for products. " +
      bounds_text(roofline.bounds);
  part.plots = {{"roofline.svg", "Roofline", roofline.svg()}};
  if (!roofline.units.empty())
    part.tables.push_back(roofline_table("unit", roofline.units, roofline.bounds));
  if (!roofline.operators.empty())
    part.tables.push_back(roofline_table("operator", roofline.operators, roofline.bounds));
  return part;
}

IKEBANA_INLINE std::vector<ReportPart> report_parts(const RunProfile& profile) {
  std::vector<ReportPart> parts{steps_part(profile),  phases_part(profile),
                                units_part(profile),  operators_part(profile),
                                memory_part(profile), roofline_part(profile)};
  parts.push_back({.id = "conditions",
                   .title = "Conditions",
                   .text = "What the times depend on, beyond the program.",
                   .verbatim = (profile.recipe.empty() ? "" : profile.recipe + "\n\n") +
                               profile.conditions.table()});
  return parts;
}

IKEBANA_INLINE std::string memory_csv(const MemoryReport& memory) {
  std::string text = "kind,name,bytes\n";
  auto add = [&](const char* kind, const std::string& name, std::int64_t bytes) {
    text += std::string(kind) + "," + csv_field(name) + "," + std::to_string(bytes) + "\n";
  };
  add("step", "before", memory.before), add("step", "after", memory.after);
  add("step", "peak", memory.peak);
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    add("phase_peak", phase_name(phase), memory.peak_of(phase));
  for (const UnitPeak& unit : memory.units) {
    add("activations", unit.name, unit.activations);
    add("forward_peak", unit.name, unit.forward_peak);
    add("backward_peak", unit.name, unit.backward_peak);
  }
  return text;
}

}  // namespace ikebana::detail
