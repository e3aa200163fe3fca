#pragma once
// Writes the report of a profiled training.
#include <filesystem>
#include <ikebana/profiling/run_profile.hpp>
#include <vector>

namespace ikebana {

/// Writes what a profile found into a folder, which is made if it does not exist: `report.html`, a
/// page without scripts and without any other file, and `report.md`; `steps.csv`, `phases.csv`,
/// `units.csv`, `operators.csv`, `roofline.csv`, `memory.csv` and `conditions.json` for programs;
/// and each plot as an SVG file. What was not measured has no file, and the report says so. A file
/// with one of these names is replaced once the new one is whole; one that this profile has no
/// numbers for is removed, since it would belong to another profile. Returns the paths that were
/// written, `report.html` first. Throws FileFailed, which names the folder, if it cannot be written
/// to.
std::vector<std::filesystem::path> write_report(const RunProfile& profile,
                                                const std::filesystem::path& folder);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/report_files.ipp>
#endif
