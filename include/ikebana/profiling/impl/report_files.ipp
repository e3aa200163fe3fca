#pragma once
#include <array>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/profiling/report_files.hpp>
#include <ikebana/profiling/report_parts.hpp>
#include <utility>

namespace ikebana::detail {

inline std::string steps_csv(const std::vector<double>& seconds) {
  std::string text = "step,seconds\n";
  for (std::size_t i = 0; i < seconds.size(); ++i)
    text += std::to_string(i + 1) + "," + exact_text(seconds[i]) + "\n";
  return text;
}

/// A file of a report, by its name.
using ReportFile = std::pair<std::string, std::string>;

/// Returns the files, `report.html` last: once it is there, all files that it names are.
inline std::vector<ReportFile> files_of_report(const RunProfile& profile) {
  const std::vector<ReportPart> parts = report_parts(profile);
  std::vector<ReportFile> files;
  auto add = [&](bool is_measured, const char* name, auto text) {
    if (is_measured) files.emplace_back(name, text());
  };
  const Roofline& roofline = profile.roofline;
  add(!profile.step_seconds.empty(), "steps.csv", [&] { return steps_csv(profile.step_seconds); });
  add(!profile.phases.phases.empty(), "phases.csv", [&] { return profile.phases.csv(); });
  add(!profile.units.units.empty(), "units.csv", [&] { return profile.units.csv(); });
  add(!profile.operators.empty(), "operators.csv", [&] { return profile.operators.csv(); });
  const KeyAverages by_unit = profile.profile.key_averages({.by_unit = true});
  add(has_units(by_unit), "operators_by_unit.csv", [&] { return by_unit.csv(); });
  add(!roofline.units.empty() || !roofline.operators.empty(), "roofline.csv",
      [&] { return roofline.csv(); });
  add(has_memory(profile), "memory.csv", [&] { return memory_csv(profile.memory); });
  add(true, "conditions.json", [&] { return profile.conditions.json(); });
  for (const ReportPart& part : parts)
    for (const ReportPlot& plot : part.plots) files.emplace_back(plot.file, plot.svg);
  files.emplace_back("report.md", report_markdown(profile, parts));
  files.emplace_back("report.html", report_page(profile, parts));
  return files;
}

/// Removes the files of another profile's report that this one does not write.
inline void remove_others(const std::filesystem::path& folder,
                          const std::vector<ReportFile>& files) {
  for (const char* name :
       {"steps.csv", "phases.csv", "units.csv", "operators.csv", "operators_by_unit.csv",
        "roofline.csv", "memory.csv", "steps.svg", "step_times.svg", "phases.svg", "units.svg",
        "operators.svg", "memory.svg", "roofline.svg"})
    if (std::none_of(files.begin(), files.end(),
                     [&](const auto& one) { return one.first == name; }))
      system_files().remove(folder / name);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::vector<std::filesystem::path> write_report(
    const RunProfile& profile, const std::filesystem::path& folder) {
  if (folder.empty())
    throw BadValue(
        "write_report: the folder is empty. Give its path; `.` is the working directory.");
  const std::vector<detail::ReportFile> files = detail::files_of_report(profile);
  std::vector<std::filesystem::path> paths;
  try {
    system_files().make_folder(folder);
    detail::remove_others(folder, files);
    for (const auto& [name, text] : files) {
      detail::write_file(folder / name, text);
      paths.insert(paths.begin(), folder / name);
    }
  } catch (const FileFailed& error) {
    throw FileFailed("write_report: the report could not be written into the folder " +
                     folder.string() + ". Name another folder, or cure this: " + error.what());
  }
  return paths;
}

}  // namespace ikebana
