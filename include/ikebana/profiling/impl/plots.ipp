#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <ikebana/profiling/plots.hpp>
#include <ikebana/profiling/report_numbers.hpp>
#include <ikebana/profiling/svg.hpp>
#include <ikebana/profiling/xml_text.hpp>
#include <iterator>

namespace ikebana::detail {

IKEBANA_INLINE PlotScale time_scale(double largest) {
  if (largest >= 1 || !(largest > 0)) return {1, "s"};
  if (largest >= 1e-3) return {1e3, "ms"};
  return largest >= 1e-6 ? PlotScale{1e6, "us"} : PlotScale{1e9, "ns"};
}

IKEBANA_INLINE PlotScale byte_scale(double largest) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double factor = 1;
  for (; unit + 1 < std::size(units) && largest * factor >= 1024; ++unit) factor /= 1024;
  return {factor, units[unit]};
}

IKEBANA_INLINE PlotScale percent_scale() { return {100, "%"}; }

IKEBANA_INLINE std::string RoundTicks::text(int i) const {
  const double value = std::abs(at(i)) < step / 2 ? 0 : at(i);
  if (std::abs(last()) >= 1e5) {
    const std::string text = short_number(value);
    return text.ends_with(' ') ? text.substr(0, text.size() - 1) : text;
  }
  return fixed(value, std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9))));
}

IKEBANA_INLINE RoundTicks round_ticks(double from, double to, int about) {
  if (!(to > from)) to = from + (from > 0 ? from : 1);
  const double rough = (to - from) / about, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  const double first = std::floor(from / step + 1e-9) * step;
  return {first, step, 1 + static_cast<int>(std::ceil((to - first) / step - 1e-9))};
}

/// The numbers of a plot that can be drawn, scaled, and how many cannot.
struct PlottedValues {
  std::vector<double> values = {};
  std::size_t left_out = 0;

  double largest() const {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
};

inline bool is_drawable(double value) { return std::isfinite(value) && value >= 0; }

inline PlottedValues plotted(std::span<const double> values, const PlotScale& scale) {
  PlottedValues kept;
  for (const double value : values)
    if (is_drawable(value)) kept.values.push_back(value * scale.factor);
    else ++kept.left_out;
  return kept;
}

inline std::vector<PlotBar> plotted(const std::vector<PlotBar>& bars, const PlotScale& scale) {
  std::vector<PlotBar> kept;
  for (const PlotBar& bar : bars)
    if (is_drawable(bar.value)) kept.push_back({bar.label, bar.value * scale.factor});
  return kept;
}

/// Says below a plot how many numbers are not in it; returns the height that this takes.
inline double note_left_out(Svg& svg, double y, std::size_t count) {
  if (count == 0) return 0;
  const bool is_one = count == 1;
  svg.text(12, y,
           std::to_string(count) + (is_one ? " number that is" : " numbers that are") +
               " not finite or below 0 " + (is_one ? "is" : "are") + " left out",
           Anchor::Start, "ik-small");
  return 18;
}

/// Returns a picture that says why there is no plot.
inline std::string empty_plot(const PlotTitle& title, std::size_t left_out) {
  Svg svg(plot_width, title.title, title.description + " There is no number to draw.");
  svg.text(plot_width / 2, 62, "no number to draw", Anchor::Middle);
  const double height = 86;
  return svg.finish(height + note_left_out(svg, height, left_out));
}

/// Draws the numbers of an axis below a plot, its lines, and its unit.
inline void draw_bottom_axis(Svg& svg, const RoundTicks& ticks, double left, double width,
                             double top, double bottom, const std::string& unit) {
  for (int i = 0; i < ticks.count; ++i) {
    const double x = left + width * i / (ticks.count - 1);
    svg.line(x, top, x, bottom, i == 0 ? "ik-axis" : "ik-grid");
    svg.text(x, bottom + 16, ticks.text(i), Anchor::Middle, "ik-small");
  }
  svg.text(left + width, bottom + 32, unit, Anchor::End, "ik-small");
}

/// Draws the numbers of an axis left of a plot, its lines, and its unit above it.
inline void draw_left_axis(Svg& svg, const RoundTicks& ticks, double left, double width, double top,
                           double bottom, const std::string& unit) {
  for (int i = 0; i < ticks.count; ++i) {
    const double y = bottom - (bottom - top) * i / (ticks.count - 1);
    svg.line(left, y, left + width, y, i == 0 ? "ik-axis" : "ik-grid");
    svg.text(left - 6, y + 4, ticks.text(i), Anchor::End, "ik-small");
  }
  svg.text(12, top - 12, unit, Anchor::Start, "ik-small");
}

/// Returns the pixels that the texts of an axis take.
inline double width_of(const RoundTicks& ticks) {
  double width = 0;
  for (int i = 0; i < ticks.count; ++i) width = std::max(width, Svg::width_of(ticks.text(i)));
  return width;
}

inline std::string with_unit(double value, const std::string& unit) {
  return rounded(value) + " " + unit;
}

IKEBANA_INLINE std::string bar_plot(const PlotTitle& title, const PlotScale& scale,
                                    const std::vector<PlotBar>& bars) {
  constexpr double row = 22, top = 38, space_for_number = 84;
  const std::vector<PlotBar> kept = plotted(bars, scale);
  const std::size_t left_out = bars.size() - kept.size();
  if (kept.empty()) return empty_plot(title, left_out);
  double label_width = 0, largest = 0;
  for (const PlotBar& bar : kept) {
    label_width = std::max(label_width, Svg::width_of(shortened(bar.label, 42)));
    largest = std::max(largest, bar.value);
  }
  const RoundTicks ticks = round_ticks(0, largest, 5);
  const double left = 20 + label_width, width = plot_width - left - space_for_number;
  const double bottom = top + row * static_cast<double>(kept.size());
  Svg svg(plot_width, title.title, title.description);
  draw_bottom_axis(svg, ticks, left, width, top, bottom, scale.unit);
  double y = top;
  for (const PlotBar& bar : kept) {
    const double length = width * bar.value / ticks.last();
    svg.bar(left, y + 3, length, row - 6, 0, bar.label + ": " + with_unit(bar.value, scale.unit));
    svg.text(left - 8, y + 15, shortened(bar.label, 42), Anchor::End);
    svg.text(left + length + 6, y + 15, with_unit(bar.value, scale.unit), Anchor::Start,
             "ik-small");
    y += row;
  }
  return svg.finish(bottom + 42 + note_left_out(svg, bottom + 46, left_out));
}

/// Draws the legend of a stacked bar below `y`, in rows; returns the place below it.
inline double draw_legend(Svg& svg, const std::vector<PlotBar>& parts, double sum,
                          const std::string& unit, double y) {
  double x = 12;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string text = shortened(parts[i].label, 42) + "  " +
                             with_unit(parts[i].value, unit) + ", " + percent(parts[i].value / sum);
    const double width = 34 + Svg::width_of(text);
    if (x > 12 && x + width > plot_width) x = 12, y += 20;
    svg.bar(x, y + 2, 12, 12, i, "");
    svg.text(x + 18, y + 12, text);
    x += width;
  }
  return y + 24;
}

/// Adds up what comes after the eighth part, since there are eight colours.
inline void join_last(std::vector<PlotBar>& parts) {
  constexpr std::size_t colours = 8;
  if (parts.size() <= colours) return;
  parts[colours - 1].label = "all others";
  for (std::size_t i = colours; i < parts.size(); ++i) parts[colours - 1].value += parts[i].value;
  parts.resize(colours);
}

IKEBANA_INLINE std::string stacked_plot(const PlotTitle& title, const PlotScale& scale,
                                        const std::vector<PlotBar>& parts) {
  std::vector<PlotBar> kept = plotted(parts, scale);
  const std::size_t left_out = parts.size() - kept.size();
  join_last(kept);
  double sum = 0;
  for (const PlotBar& part : kept) sum += part.value;
  if (!(sum > 0)) return empty_plot(title, left_out);
  Svg svg(plot_width, title.title, title.description);
  constexpr double left = 12, top = 40, height = 34, width = plot_width - 2 * left;
  double x = left;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const double length = width * kept[i].value / sum;
    svg.bar(x, top, length, height, i, kept[i].label + ": " + percent(kept[i].value / sum));
    x += length;
  }
  const double below = draw_legend(svg, kept, sum, scale.unit, top + height + 12);
  return svg.finish(below + note_left_out(svg, below + 8, left_out));
}

/// Returns the place of each number in a line plot, `M` or `L` before it; a number that cannot be
/// drawn ends the line. Of the numbers of one pixel the least and the largest are drawn.
inline std::string line_path(std::span<const double> values, double factor, double left,
                             double width, double top, double bottom, double largest) {
  const std::size_t count = values.size();
  const std::size_t each = std::max<std::size_t>(1, count / static_cast<std::size_t>(width));
  auto place = [&](std::size_t i, double value) {
    const double part = count == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(count - 1);
    return Svg::pixels(left + width * part) + " " +
           Svg::pixels(bottom - (bottom - top) * value * factor / largest);
  };
  std::string path;
  bool goes_on = false;
  for (std::size_t i = 0; i < count; i += each) {
    const auto part = values.subspan(i, std::min(each, count - i));
    if (!std::all_of(part.begin(), part.end(), is_drawable)) {
      goes_on = false;
      continue;
    }
    const auto [least, most] = std::minmax_element(part.begin(), part.end());
    path += (goes_on ? "L" : "M") + place(i, *most);
    if (each > 1) path += "L" + place(i, *least);
    goes_on = true;
  }
  return path;
}

IKEBANA_INLINE std::string line_plot(const PlotTitle& title, const PlotScale& scale,
                                     std::span<const double> values) {
  const PlottedValues kept = plotted(values, scale);
  if (kept.values.empty()) return empty_plot(title, kept.left_out);
  const RoundTicks ticks = round_ticks(0, kept.largest(), 4);
  const double left = 24 + width_of(ticks), width = plot_width - left - 24, top = 58, bottom = 228;
  Svg svg(plot_width, title.title, title.description);
  draw_left_axis(svg, ticks, left, width, top, bottom, scale.unit);
  const std::size_t count = values.size();
  auto x_of = [&](std::size_t step) {
    return left +
           (count == 1 ? 0.5 : (static_cast<double>(step) - 1) / static_cast<double>(count - 1)) *
               width;
  };
  const RoundTicks steps = round_ticks(0, static_cast<double>(count), 8);
  for (int i = 0; i < steps.count; ++i) {
    const auto step = static_cast<std::size_t>(std::llround(std::max(1.0, steps.at(i))));
    if (step > count || (i > 0 && steps.at(i) < 1.5)) continue;
    svg.text(x_of(step), bottom + 16, std::to_string(step), Anchor::Middle, "ik-small");
  }
  svg.text(left + width, bottom + 32, "step", Anchor::End, "ik-small");
  svg.path(line_path(values, scale.factor, left, width, top, bottom, ticks.last()));
  for (std::size_t i = 0; count <= 100 && i < count; ++i)
    if (is_drawable(values[i]))
      svg.point(
          x_of(i + 1), bottom - (bottom - top) * values[i] * scale.factor / ticks.last(), 3, 0,
          false,
          "step " + std::to_string(i + 1) + ": " + with_unit(values[i] * scale.factor, scale.unit));
  const double median = time_statistics(kept.values).median,
               y = bottom - (bottom - top) * median / ticks.last();
  svg.line(left, y, left + width, y, "ik-dash");
  svg.text(left + width, 46, "- - median " + with_unit(median, scale.unit), Anchor::End,
           "ik-small");
  return svg.finish(bottom + 42 + note_left_out(svg, bottom + 46, kept.left_out));
}

/// Returns the borders of a histogram's intervals, by the rule of Freedman and Diaconis, as far as
/// there is room: twice the distance of the quartiles, divided by the cube root of the count.
inline RoundTicks histogram_bins(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double least = values.front(), most = values.back();
  const double quartiles = values[values.size() * 3 / 4] - values[values.size() / 4];
  const double spread = std::max(most - least, most * 0.02);  // what differs less is noise
  const double width = 2 * quartiles / std::cbrt(static_cast<double>(values.size()));
  const double wanted = width > 0 ? spread / width : 10;
  return round_ticks(least, least + spread, static_cast<int>(std::clamp(wanted, 5.0, 50.0)));
}

inline std::vector<std::size_t> counts_in(const RoundTicks& bins, std::span<const double> values) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(bins.count - 1));
  const auto last = static_cast<double>(counts.size() - 1);
  for (const double value : values) {
    const double place = std::floor((value - bins.first) / bins.step + 1e-9);
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, last))];
  }
  return counts;
}

IKEBANA_INLINE std::string histogram_plot(const PlotTitle& title, const PlotScale& scale,
                                          std::span<const double> values) {
  const PlottedValues kept = plotted(values, scale);
  if (kept.values.empty()) return empty_plot(title, kept.left_out);
  const RoundTicks bins = histogram_bins(kept.values);
  const std::vector<std::size_t> counts = counts_in(bins, kept.values);
  const auto tallest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  const RoundTicks ticks = round_ticks(0, tallest, static_cast<int>(std::min(4.0, tallest)));
  const double left = 24 + width_of(ticks), width = plot_width - left - 24, top = 58, bottom = 208;
  Svg svg(plot_width, title.title, title.description);
  draw_left_axis(svg, ticks, left, width, top, bottom, "count");
  const double bin = width / static_cast<double>(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double height = (bottom - top) * static_cast<double>(counts[i]) / ticks.last();
    const auto at = static_cast<int>(i);
    svg.bar(left + bin * static_cast<double>(i) + 0.5, bottom - height, bin - 1, height, 0,
            bins.text(at) + " to " + bins.text(at + 1) + " " + scale.unit + ": " +
                std::to_string(counts[i]));
  }
  const int every = 1 + static_cast<int>((width_of(bins) + 12) / bin);
  for (int i = 0; i < bins.count; i += every)
    svg.text(left + bin * i, bottom + 16, bins.text(i), Anchor::Middle, "ik-small");
  svg.text(left + width, bottom + 32, scale.unit, Anchor::End, "ik-small");
  return svg.finish(bottom + 42 + note_left_out(svg, bottom + 46, kept.left_out));
}

}  // namespace ikebana::detail
