#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/profiling/roofline.hpp>
#include <ikebana/profiling/roofline_text.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const char* limit_name(RooflineLimit limit) {
  switch (limit) {
    case RooflineLimit::Products:
      return "products";
    case RooflineLimit::Copies:
      return "copies";
    case RooflineLimit::Overhead:
      return "overhead";
    case RooflineLimit::Caches:
      return "caches";
    case RooflineLimit::Unknown:
      break;
  }
  return "unknown";
}

IKEBANA_INLINE std::string limit_text(const RooflinePoint& point, const MachineBounds& bounds) {
  const RooflineLimit limit = point.limit(bounds);
  if (limit == RooflineLimit::Unknown) return "-";
  if (limit == RooflineLimit::Caches) return "above the copy bound: its tensors fit into caches";
  if (limit == RooflineLimit::Overhead)
    return "overhead: a call takes " +
           rounded(point.seconds / static_cast<double>(point.calls) * 1e6) + " us";
  if (point.share(bounds) > 1) return "above the matmul bound: it was measured on a slower machine";
  return limit_name(limit);
}

IKEBANA_INLINE std::string roofline_share_text(const RooflinePoint& point,
                                               const MachineBounds& bounds) {
  const double share = point.share(bounds);
  if (share == 0) return "-";
  return share > 1 ? "> 100 %" : fixed(share * 100, 1) + " %";
}

IKEBANA_INLINE std::vector<RooflinePoint> by_time(std::vector<RooflinePoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return points;
}

IKEBANA_INLINE std::string roofline_rows(const std::string& title,
                                         const std::vector<RooflinePoint>& points,
                                         const MachineBounds& bounds, std::size_t rows) {
  std::size_t width = 24;
  for (const RooflinePoint& p : points)
    width = std::max(width, std::min<std::size_t>(p.name.size(), 56));
  std::string text = "  " + left(title, width);
  for (const char* column : {"calls", "ms/step", "FLOP/byte", "FLOP/s", "B/s", "of bound"})
    text += right(column, 11);
  text += "  bound\n";
  const std::vector<RooflinePoint> sorted = by_time(points);
  for (std::size_t i = 0; i < std::min(rows, sorted.size()); ++i) {
    const RooflinePoint& p = sorted[i];
    const bool has_products = p.flops > 0;
    text += "  " + left(p.name, width) + right(std::to_string(p.calls), 11) +
            right(fixed(p.seconds * 1e3, 3), 11) +
            right(has_products ? rounded(p.intensity()) : "-", 11) +
            right(has_products ? short_number(p.flops_per_second()) : "-", 11) +
            right(p.bytes > 0 ? short_number(p.bytes_per_second()) : "-", 11) +
            right(roofline_share_text(p, bounds), 11) + "  " + limit_text(p, bounds) + "\n";
  }
  return text;
}

IKEBANA_INLINE std::string dtype_text(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    default:
      return c10::toString(dtype);
  }
}

IKEBANA_INLINE std::string bounds_text(const MachineBounds& bounds) {
  std::string text = "bounds of " + bounds.device + ": products";
  for (const MachineBounds::Matmul& one : bounds.matmul)
    text += " " + dtype_text(one.dtype) + " " + short_number(one.flops_per_second) + "FLOP/s,";
  return text + " copies " + short_number(bounds.bytes_per_second) + "B/s\n";
}

}  // namespace ikebana::detail
