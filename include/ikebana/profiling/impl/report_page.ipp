#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/report_parts.hpp>
#include <ikebana/profiling/xml_text.hpp>

namespace ikebana::detail {

/// The beginning of `report.html`, with its style. It names no font, file or address of elsewhere.
inline constexpr const char* page_head = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>Profile of a training</title>
<style>
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d5dae0;
--card:#f4f6f8;--mark:#0072b2}
@media (prefers-color-scheme:dark){:root{--page:#14181d;--ink:#e4e7eb;--soft:#a4adb7;
--line:#353c45;--card:#1c2229;--mark:#56b4e9}}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h1{font-size:1.6rem;margin:0 0 1rem}
h2{font-size:1.25rem;margin:2.75rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:0}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--mark)}
nav{margin:1.25rem 0 0;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;font-size:.9rem}
.answers{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.75rem;margin:0}
.answers div{background:var(--card);border-radius:.4rem;padding:.7rem .9rem}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-size:.85rem;overflow-wrap:anywhere}
dd.value{font-size:1.45rem;font-weight:600;line-height:1.3;font-variant-numeric:tabular-nums}
ol.advice{padding-left:1.4rem;max-width:46rem}
ol.advice li{margin:0 0 1.1rem;padding-left:.25rem}
.gain{color:var(--mark);font-size:.9rem;margin-left:.4rem}
.scroll{overflow-x:auto;margin:1rem 0}
.plot{overflow-x:auto;margin:1rem 0}
.plot svg{display:block;width:100%;min-width:36rem;max-width:52rem;height:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;
min-width:min(100%,36rem)}
th,td{padding:.28rem .6rem;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap;vertical-align:top}
th{color:var(--soft);font-weight:600}
.t{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:9rem}
.note{color:var(--soft);font-size:.85rem}
pre,code{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.85rem}
pre{background:var(--card);border-radius:.4rem;padding:.7rem .9rem;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.5rem 0}
@media (min-width:34rem){.answers .wide{grid-column:span 2}}
@media (max-width:40rem){main{padding:1rem .8rem 3rem}}
@media print{:root{--page:#fff;--ink:#000;--soft:#333;--line:#bbb;--card:#fff}nav{display:none}
main{max-width:none}.plot,tr,.answers div,ol.advice li{break-inside:avoid}
h2,h3{break-after:avoid}.answers div{border:1px solid var(--line)}.scroll,.plot{overflow:visible}
.plot svg{min-width:0}table{font-size:.7rem}}
</style>
</head>
<body>
<main>
<h1>Profile of a training</h1>
)";

inline std::string element(const std::string& tag, const std::string& text) {
  return "<" + tag + ">" + xml_text(text) + "</" + tag.substr(0, tag.find(' ')) + ">";
}

/// Returns a paragraph, in which what stands between backticks is code.
inline std::string paragraph(const std::string& text) {
  std::string html = "<p>";
  bool is_code = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('`', at), text.size());
    html += xml_text(text.substr(at, end - at));
    const bool is_paired = is_code || text.find('`', end + 1) != std::string::npos;
    if (end < text.size()) html += !is_paired ? "`" : is_code ? "</code>" : "<code>";
    if (end < text.size() && is_paired) is_code = !is_code;
    at = end + 1;
  }
  return html + "</p>\n";
}

inline std::string answers_html(const RunProfile& profile) {
  std::string text = "<dl class=\"answers\">\n";
  auto add = [&](const std::string& title, const std::string& value, const std::string& more) {
    text += title == "most time" ? "<div class=\"wide\">" : "<div>";
    text += element("dt", title) + element("dd class=\"value\"", value);
    text += (more.empty() ? "" : element("dd", more)) + "</div>\n";
  };
  for (const Answer& one : answers(profile)) add(one.title, one.value, one.text);
  if (!profile.bound_by.empty()) add("bound by", profile.bound_by, "");
  return text + "</dl>\n";
}

inline std::string advice_html(const RunProfile& profile) {
  std::string text = "<h2 id=\"advice\">Advice</h2>\n";
  if (profile.advice.empty()) return text + "<p>No rule found anything to change.</p>\n";
  text += "<ol class=\"advice\">\n";
  for (const Advice& one : profile.advice) {
    const std::string gain = gain_text(one);
    text += "<li>" + element("strong", one.finding);
    if (!gain.empty()) text += " " + element("span class=\"gain\"", gain);
    if (!one.evidence.empty()) text += "\n" + paragraph(one.evidence);
    if (!one.change.empty()) text += "\n" + element("pre", one.change);
    text += "</li>\n";
  }
  return text + "</ol>\n";
}

inline std::string table_html(const ReportTable& table) {
  std::string text = "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>";
  auto mark = [&](std::size_t column) { return column < table.texts ? " class=\"t\"" : ""; };
  for (std::size_t i = 0; i < table.titles.size(); ++i)
    text += element(std::string("th scope=\"col\"") + mark(i), table.titles[i]);
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += element(std::string("td") + mark(i), row[i]);
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  return table.note.empty() ? text : text + element("p class=\"note\"", table.note) + "\n";
}

inline std::string part_html(const ReportPart& part) {
  std::string text = "<h2 id=\"" + part.id + "\">" + xml_text(part.title) + "</h2>\n";
  text += paragraph(part.text);
  for (const ReportPlot& plot : part.plots) text += "<div class=\"plot\">" + plot.svg + "</div>\n";
  for (const ReportTable& table : part.tables) text += table_html(table);
  return part.verbatim.empty() ? text : text + element("pre", part.verbatim) + "\n";
}

IKEBANA_INLINE std::string report_page(const RunProfile& profile,
                                       const std::vector<ReportPart>& parts) {
  std::string text = page_head + answers_html(profile) + "<nav aria-label=\"Parts\">\n";
  text += "<a href=\"#advice\">Advice</a>\n";
  for (const ReportPart& part : parts)
    text += "<a href=\"#" + part.id + "\">" + xml_text(part.title) + "</a>\n";
  text += "</nav>\n" + advice_html(profile);
  for (const ReportPart& part : parts) text += part_html(part);
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace ikebana::detail
