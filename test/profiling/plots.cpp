// Tests the plots of a report: numbers by hand, and that no name and no number can spoil a picture.
#include <algorithm>
#include <ikebana/profiling/plots.hpp>
#include <ikebana/profiling/roofline.hpp>
#include <set>

#include "profiling/xml.hpp"

namespace test::plots {

using namespace ikebana;
using namespace test::xml;

constexpr double inf = HUGE_VAL, nan = NAN;

TEST_CASE("plots: the checker of XML finds faults") {
  CHECK(fault_in_xml("<a b=\"1\"><c/>x &lt; y</a>") == "");
  for (const char* text : {"<a>", "<a></b>", "a & b", "<a b=1/>", "a < b", "\x01", "\xFF"})
    CHECK(fault_in_xml(text) != "");
}

TEST_CASE("plots: round numbers enclose what is drawn") {
  for (const auto& [from, to] : {std::pair{0.0, 0.0},
                                 {0.0, 1.0},
                                 {0.0, 73.2},
                                 {70.1, 71.3},
                                 {0.0, 3e-9},
                                 {5.0, 5.0},
                                 {0.0, 999999.0},
                                 {1e12, 3e12}}) {
    const ikebana::detail::RoundTicks ticks = ikebana::detail::round_ticks(from, to, 5);
    CHECK(ticks.first <= from);
    CHECK(ticks.last() >= to * (1 - 1e-9));
    CHECK((ticks.count >= 2 && ticks.count <= 8));
    const double digits = ticks.step / std::pow(10, std::floor(std::log10(ticks.step) + 1e-9));
    CHECK((std::abs(digits - 1) < 1e-6 || std::abs(digits - 2) < 1e-6 ||
           std::abs(digits - 5) < 1e-6));
    std::set<std::string> texts;
    for (int i = 0; i < ticks.count; ++i) texts.insert(ticks.text(i));
    CHECK(texts.size() == static_cast<std::size_t>(ticks.count));  // no two read the same
  }
  CHECK(ikebana::detail::round_ticks(0, 73.2, 5).text(1) == "20");
  CHECK(ikebana::detail::round_ticks(0, 0.3, 3).text(1) == "0.1");
}

TEST_CASE("plots: any numbers and names give a sane picture") {
  const ikebana::detail::PlotTitle title{nasty, longest};
  const ikebana::detail::PlotScale ms = ikebana::detail::time_scale(0.07);
  const std::vector<std::vector<double>> all = {{},
                                                {0, 0, 0},
                                                {0.07},
                                                {0.07, 0.07},
                                                {nan, inf, -1},
                                                {0.01, nan},
                                                {1e-300, 1e9},
                                                {0.071, 0.0712, 0.0713, 0.0711, 1.5}};
  for (const std::vector<double>& values : all) {
    std::vector<ikebana::detail::PlotBar> bars;
    for (const double value : values) bars.push_back({bars.empty() ? nasty : longest, value});
    const std::string pictures[] = {ikebana::detail::line_plot(title, ms, values),
                                    ikebana::detail::histogram_plot(title, ms, values),
                                    ikebana::detail::bar_plot(title, ms, bars),
                                    ikebana::detail::stacked_plot(title, ms, bars)};
    for (const std::string& svg : pictures) check_picture(svg);
    const auto left_out = std::count_if(values.begin(), values.end(),
                                        [](double v) { return !std::isfinite(v) || v < 0; });
    for (const std::string& svg : pictures) {
      CHECK(contains(svg, "left out") == (left_out > 0));
      CHECK((values.size() != static_cast<std::size_t>(left_out) ||
             contains(svg, "no number to draw")));
    }
  }
}

TEST_CASE("plots: a bar is as long as its number, and numbers of many steps keep their extremes") {
  const std::string bars = ikebana::detail::bar_plot({"t", "d"}, {1, "ms"}, {{"a", 5}, {"b", 10}});
  std::vector<double> widths;
  static const std::regex bar(R"rx(<rect [^>]*width="([\d.]+)")rx");
  for (std::sregex_iterator at(bars.begin(), bars.end(), bar), end; at != end; ++at)
    widths.push_back(std::stod((*at)[1]));
  REQUIRE(widths.size() == 2);
  CHECK(std::abs(widths[1] - 2 * widths[0]) < 0.2);
  std::vector<double> many(100000, 1.0);
  many[50001] = 2;
  const std::string line = ikebana::detail::line_plot({"t", "d"}, {1, "s"}, many);
  CHECK(contains(line, " 58L"));  // the top of the plot, where 2 s are
  CHECK(line.size() < 60000);
  CHECK(contains(ikebana::detail::histogram_plot({"t", "d"}, {1, "s"}, {{1, 1, 1, 2, 3}}),
                 ": 3</title>"));
}

TEST_CASE("plots: texts do not overlap") {
  const std::vector<double> steps{0.0731, 0.0732, 0.0735, 0.0741, 0.0733, 0.0952};
  std::vector<ikebana::detail::PlotBar> bars;
  for (int i = 0; i < 12; ++i) bars.push_back({"aten::some_operator_" + std::to_string(i), 1e-3});
  const ikebana::detail::PlotScale ms{1e3, "ms"};
  CHECK(overlapping_texts(ikebana::detail::line_plot({"t", "d"}, ms, steps)) == "");
  CHECK(overlapping_texts(ikebana::detail::histogram_plot({"t", "d"}, ms, steps)) == "");
  CHECK(overlapping_texts(ikebana::detail::bar_plot({"t", "d"}, ms, bars)) == "");
  CHECK(overlapping_texts(ikebana::detail::stacked_plot({"t", "d"}, ms, bars)) == "");
  Roofline some{{"cpu", {{at::kFloat, 3e11}, {at::kBFloat16, 3.2e11}}, 1e10}, {}, {}};
  for (int i = 0; i < 9; ++i)
    some.units.push_back({"blocks." + std::to_string(i), 3, 1000000000, 40000000, 0.01 + i * 1e-5});
  CHECK(overlapping_texts(some.svg()) == "");
  CHECK(overlapping_texts("<text x=\"1\" y=\"2\">abc</text><text x=\"9\" y=\"2\">d</text>") ==
        "abc / d");
}

TEST_CASE("plots: a roofline of any points is a sane picture") {
  check_picture(Roofline{}.svg());
  CHECK(contains(Roofline{}.svg(), "no unit or operator with products"));
  Roofline some{
      {nasty, {{at::kFloat, nan}, {at::kHalf, inf}, {at::kBFloat16, 0}}, nan},
      {{nasty, 1, 10, 1, 1e-300}, {longest, 1, 1, 1000000000000, 1e9}, {"n", 1, 1, 1, nan}},
      {{"", 0, 1, 1, inf}}};
  check_picture(some.svg());
  CHECK(fault_in_xml("<a>" + ikebana::detail::xml_text(some.table()) + "</a>") == "");
}

TEST_CASE("xml_text: keeps characters, and replaces what is none") {
  CHECK(ikebana::detail::xml_text("<&>\"'") == "&lt;&amp;&gt;&quot;&#39;");
  CHECK(ikebana::detail::xml_text("\xE6\xBC\xA2\xF0\x9F\x8C\xB8\n") ==
        "\xE6\xBC\xA2\xF0\x9F\x8C\xB8\n");
  for (const char* bad :
       {"\xFF", "\xC3", "\xC3(", "\xC0\xAF", "\xED\xA0\x80", "\xEF\xBF\xBF", "\x01", "\xE6\xBC"})
    CHECK(contains(ikebana::detail::xml_text(bad), "\xEF\xBF\xBD"));
  CHECK(ikebana::detail::shortened("abcdefghij", 5) == "ab\u2026ij");
  CHECK(ikebana::detail::shortened("abc", 5) == "abc");
  CHECK(ikebana::detail::text_columns(
            ikebana::detail::shortened(std::string(300, 'x') + nasty, 40)) <= 40);
  CHECK(ikebana::detail::text_columns("\xE6\xBC\xA2") == 2);
}

}  // namespace test::plots
