#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/report_parts.hpp>
#include <ikebana/profiling/xml_text.hpp>

namespace ikebana::detail {

/// Returns a text in one line of Markdown in which no character means anything but itself.
inline std::string markdown_text(const std::string& text) {
  std::string escaped;
  for (const char c : utf8_of(characters_of(text))) {
    if (c == '\n' || c == '\r' || c == '\t') escaped += ' ';
    else if (std::string_view("\\`*_{}[]<>|#~&$").find(c) != std::string_view::npos)
      escaped += '\\', escaped += c;
    else escaped += c;
  }
  return escaped;
}

/// Returns lines as a block of code, whose fence is longer than any within them.
inline std::string code_block(const std::string& lines) {
  std::string fence = "```";
  while (lines.find(fence) != std::string::npos) fence += '`';
  const std::string text = utf8_of(characters_of(lines));
  return fence + "text\n" + text + (text.ends_with('\n') ? "" : "\n") + fence + "\n";
}

inline std::string row_markdown(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + markdown_text(cell) + " |";
  return text + "\n";
}

inline std::string table_markdown(const ReportTable& table) {
  std::string text = row_markdown(table.titles) + "|";
  for (std::size_t i = 0; i < table.titles.size(); ++i) text += i < table.texts ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : table.rows) text += row_markdown(row);
  return table.note.empty() ? text : text + "\n" + markdown_text(table.note) + "\n";
}

inline std::string advice_markdown(const RunProfile& profile) {
  if (profile.advice.empty()) return "\nNo rule found anything to change.\n";
  std::string text;
  for (const Advice& one : profile.advice) {
    const std::string gain = gain_text(one);
    text += "\n### " + markdown_text(one.finding) + "\n";
    if (!gain.empty()) text += "\n" + markdown_text(gain) + "\n";
    if (!one.evidence.empty()) text += "\n" + markdown_text(one.evidence) + "\n";
    if (!one.change.empty()) text += "\n" + code_block(one.change);
  }
  return text;
}

IKEBANA_INLINE std::string report_markdown(const RunProfile& profile,
                                           const std::vector<ReportPart>& parts) {
  ReportTable table{.titles = {"", "", ""}, .texts = 3};
  for (const Answer& one : answers(profile)) table.rows.push_back({one.title, one.value, one.text});
  if (!profile.bound_by.empty()) table.rows.push_back({"bound by", profile.bound_by, ""});
  std::string text = "# Profile of a training\n\n" + table_markdown(table);
  text += "\n## Advice\n" + advice_markdown(profile);
  for (const ReportPart& part : parts) {
    text += "\n## " + part.title + "\n\n" + markdown_text(part.text) + "\n";
    for (const ReportPlot& plot : part.plots)
      text += "\n![" + plot.title + "](" + plot.file + ")\n";
    for (const ReportTable& one : part.tables) text += "\n" + table_markdown(one);
    if (!part.verbatim.empty()) text += "\n" + code_block(part.verbatim);
  }
  return text;
}

}  // namespace ikebana::detail
