#pragma once
// Writes pictures as SVG.
#include <string>

namespace ikebana::detail {

/// Where a text stands beside its place.
enum class Anchor { Start, Middle, End };

/// A picture, to which shapes are added from back to front. Its colours suit light and dark pages:
/// it has its own background, and follows `prefers-color-scheme`, alone and within a page. Series
/// have the colours of Okabe and Ito, which the colour-blind can tell apart. Lengths are in pixels;
/// y grows downwards.
class Svg {
 public:
  /// The title is drawn above the picture. A screen reader reads it, and the description.
  Svg(double width, const std::string& title, const std::string& description);

  /// Draws a text, in the style of a class: `ik-small`, `ik-strong`. Long texts are not broken.
  void text(double x, double y, const std::string& text, Anchor anchor = Anchor::Start,
            const std::string& style = "");
  /// Draws a rectangle of a series' colour. `tip` is shown beside the pointer.
  void bar(double x, double y, double width, double height, std::size_t series,
           const std::string& tip);
  /// Draws a line, in the style of a class: `ik-axis`, `ik-grid`, `ik-dash`.
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  /// Draws a disc of a series' colour; as a square with `is_square`.
  void point(double x, double y, double radius, std::size_t series, bool is_square,
             const std::string& tip);
  /// Draws lines from point to point, in the first series' colour: `path` is the attribute `d` of a
  /// path.
  void path(const std::string& path);

  /// Returns the text of the picture.
  std::string finish(double height) const;

  /// Writes a number of pixels, with a point in every locale.
  static std::string pixels(double value);
  /// Returns about how many pixels a text takes; most fonts need less.
  static double width_of(const std::string& text);

 private:
  double width_;
  std::string title_, description_, body_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/svg.ipp>
#endif
