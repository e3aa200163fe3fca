#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/profiling/svg.hpp>
#include <ikebana/profiling/xml_text.hpp>

namespace ikebana::detail {

/// The style of all pictures. The names of its classes begin with `ik-`, since an HTML file with a
/// picture applies it to everything else as well. On a dark page the first series has the lighter
/// one of the two blues. Source of the colours: Okabe and Ito, "Color Universal Design" (2008).
inline constexpr const char* svg_style = R"(<style>
.ik-plot{background:#fff;color:#1b1f24;font:12px system-ui,-apple-system,"Segoe UI",sans-serif}
.ik-plot text{fill:currentColor}.ik-plot .ik-small{font-size:11px;opacity:.85}
.ik-plot .ik-strong{font-size:14px;font-weight:600}
.ik-axis{stroke:currentColor;stroke-width:1}.ik-grid{stroke:currentColor;opacity:.15}
.ik-dash{stroke:currentColor;stroke-dasharray:5 4;opacity:.8}
.ik-bound{stroke:currentColor;stroke-width:1.5}
.ik-halo{stroke:#fff;stroke-width:3px;paint-order:stroke;stroke-linejoin:round}
.ik-path{fill:none;stroke-width:1.5;stroke:#0072b2}
.ik-c0{fill:#0072b2}.ik-c1{fill:#e69f00}.ik-c2{fill:#009e73}.ik-c3{fill:#d55e00}.ik-c4{fill:#56b4e9}
.ik-c5{fill:#cc79a7}.ik-c6{fill:#f0e442}.ik-c7{fill:#8c8c8c}
.ik-point{stroke:#fff;stroke-width:1;fill-opacity:.85}
@media (prefers-color-scheme:dark){.ik-plot{background:#14181d;color:#e4e7eb}
.ik-halo,.ik-point{stroke:#14181d}.ik-path{stroke:#56b4e9}.ik-c0{fill:#56b4e9}.ik-c4{fill:#0072b2}}
@media print{.ik-plot{background:#fff;color:#000}.ik-halo,.ik-point{stroke:#fff}}
</style>
)";

/// Returns the class with the colour of a series.
inline std::string fill_of(std::size_t series) { return "ik-c" + std::to_string(series % 8); }

inline std::string tip_of(const std::string& tip) {
  return tip.empty() ? "/>\n" : "><title>" + xml_text(tip) + "</title>";
}
inline std::string end_of(const std::string& tip, const char* element) {
  return tip.empty() ? "" : std::string("</") + element + ">\n";
}

IKEBANA_INLINE Svg::Svg(double width, const std::string& title, const std::string& description)
    : width_(width), title_(title), description_(description) {
  text(12, 22, title, Anchor::Start, "ik-strong");
}

IKEBANA_INLINE std::string Svg::pixels(double value) {
  if (!std::isfinite(value)) value = 0;
  const auto tenths = std::llround(std::clamp(value, -1e6, 1e6) * 10);
  const std::string digits = std::to_string(std::abs(tenths) / 10);
  const std::string sign = tenths < 0 ? "-" : "";
  return sign + digits + (tenths % 10 == 0 ? "" : "." + std::to_string(std::abs(tenths) % 10));
}

IKEBANA_INLINE double Svg::width_of(const std::string& text) {
  return 7.0 * static_cast<double>(text_columns(text));
}

IKEBANA_INLINE void Svg::text(double x, double y, const std::string& text, Anchor anchor,
                              const std::string& style) {
  body_ += "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\"";
  if (!style.empty()) body_ += " class=\"" + style + "\"";
  if (anchor != Anchor::Start)
    body_ += anchor == Anchor::End ? " text-anchor=\"end\"" : " text-anchor=\"middle\"";
  body_ += ">" + xml_text(text) + "</text>\n";
}

IKEBANA_INLINE void Svg::bar(double x, double y, double width, double height, std::size_t series,
                             const std::string& tip) {
  body_ += "<rect x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" width=\"" + pixels(width) +
           "\" height=\"" + pixels(height) + "\" class=\"" + fill_of(series) + "\"" + tip_of(tip) +
           end_of(tip, "rect");
}

IKEBANA_INLINE void Svg::line(double x1, double y1, double x2, double y2,
                              const std::string& style) {
  body_ += "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) +
           "\" y2=\"" + pixels(y2) + "\" class=\"" + style + "\"/>\n";
}

IKEBANA_INLINE void Svg::point(double x, double y, double radius, std::size_t series,
                               bool is_square, const std::string& tip) {
  const std::string rest = "\" class=\"ik-point " + fill_of(series) + "\"" + tip_of(tip) +
                           end_of(tip, is_square ? "rect" : "circle");
  if (!is_square)
    body_ += "<circle cx=\"" + pixels(x) + "\" cy=\"" + pixels(y) + "\" r=\"" + pixels(radius);
  else
    body_ += "<rect x=\"" + pixels(x - radius) + "\" y=\"" + pixels(y - radius) + "\" width=\"" +
             pixels(2 * radius) + "\" height=\"" + pixels(2 * radius);
  body_ += rest;
}

IKEBANA_INLINE void Svg::path(const std::string& path) {
  body_ += "<path class=\"ik-path\" d=\"" + path + "\"/>\n";
}

IKEBANA_INLINE std::string Svg::finish(double height) const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ik-plot\" role=\"img\" viewBox=\"0 0 " +
         pixels(width_) + " " + pixels(height) + "\" width=\"" + pixels(width_) + "\" height=\"" +
         pixels(height) + "\">\n<title>" + xml_text(title_) + "</title>\n<desc>" +
         xml_text(description_) + "</desc>\n" + svg_style + body_ + "</svg>\n";
}

}  // namespace ikebana::detail
