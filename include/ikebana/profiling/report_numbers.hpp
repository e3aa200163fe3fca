#pragma once
// Writes the numbers of a report.
#include <string>

namespace ikebana::detail {

/// Writes a part as `12.3 %`; `less than 0.1 %` if it would round to 0.
std::string percent(double share);
/// Writes seconds with a unit that fits: `73.17 ms`.
std::string duration_text(double seconds);
/// Writes a number with a unit that has no prefix: `7.00 k items/s`, `512 items/s`.
std::string counted_text(double value, const std::string& unit);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/report_numbers.ipp>
#endif
