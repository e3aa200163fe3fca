#pragma once
// Draws plots as SVG.
#include <span>
#include <string>
#include <vector>

namespace ikebana::detail {

inline constexpr double plot_width = 720;  ///< the pixels of every plot

/// The texts of a plot.
struct PlotTitle {
  std::string title = {};        ///< stands above it
  std::string description = {};  ///< is what a screen reader says instead of the picture
};

/// A scale multiplies numbers by `factor`, so that they are in `unit`.
struct PlotScale {
  double factor = 1;
  std::string unit = {};
};
/// Returns the scale for times up to `largest` seconds: from ns to s.
PlotScale time_scale(double largest);
/// Returns the scale for sizes up to `largest` bytes: from bytes to TiB.
PlotScale byte_scale(double largest);
/// Returns the scale that writes parts of 1 as percent.
PlotScale percent_scale();

/// One bar of a plot, with its number before scaling.
struct PlotBar {
  std::string label = {};
  double value = 0;
};

// In all plots numbers that are not finite or below 0 are left out, and a note says how many; a
// plot without any number says so.

/// Draws horizontal bars from 0, in the order of `bars`, each with its label and number.
std::string bar_plot(const PlotTitle& title, const PlotScale& scale,
                     const std::vector<PlotBar>& bars);
/// Draws the parts of a whole as one bar with a legend that has their numbers and percents.
std::string stacked_plot(const PlotTitle& title, const PlotScale& scale,
                         const std::vector<PlotBar>& parts);
/// Draws numbers over the steps, which count from 1, and their median. If there are more steps than
/// pixels, it draws the least and the largest number of each pixel.
std::string line_plot(const PlotTitle& title, const PlotScale& scale,
                      std::span<const double> values);
/// Draws how many numbers are in each of some intervals, whose borders are round.
std::string histogram_plot(const PlotTitle& title, const PlotScale& scale,
                           std::span<const double> values);
/// Round numbers from `from` to `to`, which include both ends.
struct RoundTicks {
  double first = 0, step = 1;
  int count = 2;

  double at(int i) const { return first + step * i; }
  double last() const { return at(count - 1); }
  std::string text(int i) const;
};
/// Returns about `about` numbers from `from` to `to`, 1, 2 or 5 times a power of 10 apart.
RoundTicks round_ticks(double from, double to, int about);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/plots.ipp>
#endif
