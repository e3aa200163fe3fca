#pragma once
// Checks of XML and of pictures in SVG.
#include <torch/torch.h>

#include <cmath>
#include <ikebana/profiling/xml_text.hpp>
#include <regex>

#include "test.hpp"

namespace test::xml {

inline const std::string nasty =
    "a<b> & \"c\" 'd' | `e` *f* \xE6\xBC\xA2\xE5\xAD\x97 \xFF \x01 \xC3 ]]> --";
inline const std::string longest = "aten::" + std::string(220, 'm') + "_backward";

/// Returns what is wrong with a text as XML 1.0; an empty text if it is well-formed.
inline std::string fault_in_xml(const std::string& text) {
  if (ikebana::detail::utf8_of(ikebana::detail::characters_of(text)) != text)
    return "a character XML does not allow";
  static const std::regex tag(R"rx(^<(/?)([a-zA-Z][\w:-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)rx");
  static const std::regex entity(R"(^&(lt|gt|amp|quot|#39);)");
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::smatch found;
    const std::string rest = text.substr(at, 2000);
    if (text[at] == '&' && !std::regex_search(rest, entity)) return "& in " + rest.substr(0, 40);
    if (text[at] != '<' || rest.starts_with("<!DOCTYPE html>")) continue;
    if (!std::regex_search(rest, found, tag)) return "< in " + rest.substr(0, 40);
    if (found[1].length() > 0) {
      if (open.empty() || open.back() != found[2]) return "end of " + found[2].str();
      open.pop_back();
    } else if (found[4].length() == 0) {
      open.push_back(found[2]);
    }
  }
  return open.empty() ? "" : open.back() + " is open";
}

/// Returns two texts of a picture that overlap, as short as fonts make them; an empty text if none
/// do.
inline std::string overlapping_texts(const std::string& svg) {
  struct Place {
    double left, right, y;
    std::string text;
  };
  static const std::regex pattern(R"rx(<text x="([-\d.]+)" y="([-\d.]+)"(?: class="[^"]*")?)rx"
                                  R"rx((?: text-anchor="(\w+)")?>([^<]*)<)rx");
  std::vector<Place> places;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
    const std::string text = (*at)[4], anchor = (*at)[3];
    const double x = std::stod((*at)[1]), width = 5.5 * static_cast<double>(text.size());
    const double left = x - (anchor == "end" ? width : anchor == "middle" ? width / 2 : 0);
    for (const Place& other : places)
      if (std::abs(other.y - std::stod((*at)[2])) < 9 && left < other.right &&
          other.left < left + width)
        return other.text + " / " + text;
    places.push_back({left, left + width, std::stod((*at)[2]), text});
  }
  return places.empty() ? "no text" : "";
}

inline void check_picture(const std::string& svg) {
  CHECK(fault_in_xml(svg) == "");
  CHECK(contains(svg, "<title>"));
  CHECK(contains(svg, "<desc>"));
  CHECK(!std::regex_search(svg, std::regex(R"rx((="|>|\s)-?(nan|inf))rx")));
}

}  // namespace test::xml
