#pragma once
// Says what stands in the report of a profiled training, apart from how it is written.
#include <algorithm>
#include <ikebana/profiling/run_profile.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A table of a report. The first columns have texts, the others numbers.
struct ReportTable {
  std::vector<std::string> titles = {};
  std::size_t texts = 1;                            ///< the columns with texts
  std::vector<std::vector<std::string>> rows = {};  ///< as many cells as titles
  std::string note = {};                            ///< stands below it
};

/// A picture of a report.
struct ReportPlot {
  std::string file = {};   ///< the name of its file, `steps.svg`
  std::string title = {};  ///< what a reader of Markdown sees without it
  std::string svg = {};    ///< the picture
};

/// One part of a report, in the order in which it is read.
struct ReportPart {
  std::string id = {};     ///< its place within `report.html`
  std::string title = {};  ///< its heading
  std::string text = {};   ///< what it shows, or why it shows nothing
  std::vector<ReportPlot> plots = {};
  std::vector<ReportTable> tables = {};
  std::string verbatim = {};  ///< lines that stand as they are
};

/// Returns the parts of a report, from the times of steps to the conditions. A part that was not
/// measured is there, and says so.
std::vector<ReportPart> report_parts(const RunProfile& profile);

/// Writes the report as a page in HTML.
std::string report_page(const RunProfile& profile, const std::vector<ReportPart>& parts);
/// Writes the report as Markdown, whose pictures are files beside it.
std::string report_markdown(const RunProfile& profile, const std::vector<ReportPart>& parts);

/// Returns whether the memory of a step was measured.
inline bool has_memory(const RunProfile& profile) { return profile.memory.peak > 0; }
/// Returns whether a row belongs to a unit within the model.
inline bool has_units(const KeyAverages& averages) {
  return std::any_of(averages.begin(), averages.end(), [](const ProfileRow& row) {
    return !row.unit.empty() && row.unit != "(model)";
  });
}
/// Returns lines of comma-separated values, with bytes, the titles first.
std::string memory_csv(const MemoryReport& memory);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/report_markdown.ipp>
#include <ikebana/profiling/impl/report_page.ipp>
#include <ikebana/profiling/impl/report_parts.ipp>
#endif
