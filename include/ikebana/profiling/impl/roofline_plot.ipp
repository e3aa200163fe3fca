#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/profiling/plots.hpp>
#include <ikebana/profiling/roofline.hpp>
#include <ikebana/profiling/roofline_text.hpp>
#include <ikebana/profiling/svg.hpp>
#include <ikebana/profiling/xml_text.hpp>
#include <map>

namespace ikebana::detail {

/// An axis from one power of 10 to another.
struct LogAxis {
  double begin = 0, end = 1;   // in pixels
  double least = 0, most = 1;  // the exponents

  double place(double value) const {
    return begin + (end - begin) * (std::log10(value) - least) / (most - least);
  }
  /// Returns true for a number that has a place.
  static bool has(double value) { return value > 0 && std::isfinite(value); }
  /// Returns how many powers of 10 apart the lines of the axis are.
  double step() const { return std::ceil((most - least) / 10); }
  /// Makes the axis long enough for a number that has a place.
  void include(double value) {
    if (!has(value)) return;
    const double from = std::floor(std::log10(value) - 0.05),
                 to = std::ceil(std::log10(value) + 0.05);
    is_empty_ ? (least = from, most = to)
              : (least = std::min(least, from), most = std::max(most, to));
    is_empty_ = false;
  }

 private:
  bool is_empty_ = true;
};

/// A place that a text takes.
struct Box {
  double left, top, right, bottom;

  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// Draws units and operators with products under the bounds of their machine, both axes
/// logarithmic. The area of a point grows with its time; as many as there is room for have names.
class RooflinePlot {
 public:
  RooflinePlot(const PlotTitle& title, const Roofline& roofline)
      : roofline_(roofline), svg_(plot_width, title.title, title.description) {
    add(roofline.units, 0), add(roofline.operators, 1);
    for (const MachineBounds::Matmul& one : roofline.bounds.matmul) {
      y_.include(one.flops_per_second);
      x_.include(ratio(one.flops_per_second, roofline.bounds.bytes_per_second));
    }
    x_.begin = 74, x_.end = plot_width - 20, y_.begin = bottom, y_.end = top;
  }

  std::string text() {
    if (points_.empty()) {
      svg_.text(plot_width / 2, 72, "no unit or operator with products", Anchor::Middle);
      return svg_.finish(100);
    }
    draw_axes();
    draw_bounds();
    for (const Point& one : points_) draw(one);
    for (const Point& one : points_) draw_name(one);
    return svg_.finish(bottom + 66);
  }

 private:
  struct Point {
    RooflinePoint of;
    std::size_t series;
    double radius;
  };
  static constexpr double top = 66, bottom = 420;
  static constexpr std::size_t names = 12;

  /// Adds the points of a kind that have products, those with the most time first.
  void add(const std::vector<RooflinePoint>& points, std::size_t series) {
    double all = 0;
    for (const RooflinePoint& p : points) all += p.seconds;
    for (const RooflinePoint& p : by_time(points)) {
      if (!LogAxis::has(p.intensity()) || !LogAxis::has(p.flops_per_second())) continue;
      points_.push_back({p, series, 4 + 9 * std::sqrt(p.seconds / all)});
      x_.include(p.intensity()), y_.include(p.flops_per_second());
    }
  }

  /// Writes a power of 10: `100 G`, `0.01`.
  static std::string power_text(double exponent) {
    static constexpr const char* letters[] = {"", " k", " M", " G", " T", " P"};
    const auto e = static_cast<int>(exponent);
    if (e < 0) return fixed(std::pow(10, e), -e);
    const int thousands = std::min(e / 3, 5);
    return "1" + std::string(static_cast<std::size_t>(e - 3 * thousands), '0') + letters[thousands];
  }

  void draw_axes() {
    for (double e = x_.least; e <= x_.most; e += x_.step()) {
      const double x = x_.place(std::pow(10, e));
      svg_.line(x, top, x, bottom, e == x_.least ? "ik-axis" : "ik-grid");
      svg_.text(x, bottom + 16, power_text(e), Anchor::Middle, "ik-small");
    }
    for (double e = y_.least; e <= y_.most; e += y_.step()) {
      const double y = y_.place(std::pow(10, e));
      svg_.line(x_.begin, y, x_.end, y, e == y_.least ? "ik-axis" : "ik-grid");
      svg_.text(x_.begin - 6, y + 4, power_text(e), Anchor::End, "ik-small");
    }
    svg_.text(12, top - 14, "FLOP/s", Anchor::Start, "ik-small");
    svg_.text(x_.end, bottom + 32, "FLOP per byte read or written", Anchor::End, "ik-small");
    svg_.point(18, bottom + 52, 5, 0, false, ""), svg_.text(28, bottom + 56, "unit");
    svg_.point(78, bottom + 52, 5, 1, true, ""), svg_.text(88, bottom + 56, "operator");
    svg_.text(170, bottom + 56, "the area of a point grows with its time", Anchor::Start,
              "ik-small");
  }

  /// Draws the line of copies, and from it on a line for the products of each dtype.
  void draw_bounds() {
    const double copies = roofline_.bounds.bytes_per_second, left = std::pow(10, x_.least);
    const double right = std::pow(10, x_.most), floor = std::pow(10, y_.least);
    std::map<double, std::string> products;
    for (const MachineBounds::Matmul& one : roofline_.bounds.matmul)
      if (LogAxis::has(one.flops_per_second)) {
        std::string& dtypes = products[one.flops_per_second];
        dtypes += (dtypes.empty() ? "" : ", ") + dtype_text(one.dtype);
      }
    for (const auto& [flops, dtypes] : products) {
      const double y = y_.place(flops);
      svg_.line(x_.place(std::clamp(ratio(flops, copies), left, right)), y, x_.end, y, "ik-bound");
      name(x_.end - 4, y - 5, dtypes + " products " + short_number(flops) + "FLOP/s", Anchor::End);
    }
    if (!LogAxis::has(copies) || products.empty()) return;
    const double from = std::max(left, floor / copies);
    const double to = std::min(right, products.rbegin()->first / copies);
    if (!(to > from)) return;
    svg_.line(x_.place(from), y_.place(from * copies), x_.place(to), y_.place(to * copies),
              "ik-bound");
    svg_.text(x_.begin + 6, top - 6, "sloped line: copies " + short_number(copies) + "B/s",
              Anchor::Start, "ik-small");
  }

  void draw(const Point& one) {
    const double x = x_.place(one.of.intensity()), y = y_.place(one.of.flops_per_second());
    const double r = one.radius;
    svg_.point(x, y, r, one.series, one.series == 1,
               one.of.name + ": " + short_number(one.of.flops_per_second()) + "FLOP/s, " +
                   rounded(one.of.intensity()) + " FLOP per byte, " +
                   roofline_share_text(one.of, roofline_.bounds) + " of the bound");
    taken_.push_back({x - r, y - r, x + r, y + r});
  }

  /// Writes a text with a box that no other text takes; nothing if it is taken.
  bool name(double x, double y, const std::string& text, Anchor anchor) {
    const double width = Svg::width_of(text);
    const double left = anchor == Anchor::Start ? x : x - width;
    const Box box{left, y - 11, left + width, y + 3};
    if (left < x_.begin || left + width > plot_width || box.bottom > bottom) return false;
    for (const Box& other : taken_)
      if (box.meets(other)) return false;
    taken_.push_back(box);
    svg_.text(x, y, text, anchor, "ik-halo ik-small");
    return true;
  }

  /// Writes a point's name beside it, where there is room.
  void draw_name(const Point& one) {
    if (named_ >= names) return;
    const double x = x_.place(one.of.intensity()), y = y_.place(one.of.flops_per_second());
    const double r = one.radius + 4;
    const std::string text = shortened(one.of.name, 34);
    for (const double down : {4.0, -11.0, 19.0})
      if (name(x + r, y + down, text, Anchor::Start) || name(x - r, y + down, text, Anchor::End)) {
        ++named_;
        return;
      }
  }

  const Roofline& roofline_;
  Svg svg_;
  std::vector<Point> points_;
  std::vector<Box> taken_;
  LogAxis x_, y_;
  std::size_t named_ = 0;
};

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string Roofline::svg() const {
  const detail::PlotTitle title{"Roofline",
                                "Units and operators under the bounds of " + bounds.device +
                                    ": operations per second over operations per byte."};
  return detail::RooflinePlot(title, *this).text();
}

}  // namespace ikebana
