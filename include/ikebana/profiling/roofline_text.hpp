#pragma once
// Writes points under a roofline, and its bounds, for people.
#include <ikebana/profiling/machine_bounds.hpp>
#include <string>
#include <vector>

namespace ikebana {
enum class RooflineLimit;  // roofline.hpp
struct RooflinePoint;
}  // namespace ikebana

namespace ikebana::detail {

/// Returns a quotient, and 0 if the divisor is not above 0.
inline double ratio(double value, double divisor) { return divisor > 0 ? value / divisor : 0; }

/// Returns the name of a limit: `products`, `copies`.
const char* limit_name(RooflineLimit limit);
/// Says what limits a point: `calls of 4.2 us`, or, if it is above a bound, why.
std::string limit_text(const RooflinePoint& point, const MachineBounds& bounds);
/// Returns the share of the bound as `12.3 %`, `> 100 %` or `-`.
std::string roofline_share_text(const RooflinePoint& point, const MachineBounds& bounds);
/// Returns the points with the most time first.
std::vector<RooflinePoint> by_time(std::vector<RooflinePoint> points);
/// Returns a table of points, of `rows` rows at most.
std::string roofline_rows(const std::string& title, const std::vector<RooflinePoint>& points,
                          const MachineBounds& bounds, std::size_t rows);
/// Returns the bounds in one line.
std::string bounds_text(const MachineBounds& bounds);
/// Returns the name of a dtype as PyTorch writes it: `float32`.
std::string dtype_text(at::ScalarType dtype);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/roofline_text.ipp>
#endif
