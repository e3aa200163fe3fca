#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/loggers/json_lines_logger.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace ikebana {

namespace detail {

/// Returns whether a line of a log is of a step or an epoch before `start`.
inline bool is_line_before(const LogStart& start, std::string_view line, std::uint64_t offset,
                           const std::string& path) {
  std::optional<double> step, epoch;
  try {
    Json json(line, offset);
    json.object("a row", [&](const std::string& key) {
      if (key == "step") step = json.number();
      else if (key == "epoch") epoch = json.number();
      else json.skip_value();
    });
    json.expect_end("a row");
  } catch (const Json::ParseError& error) {
    throw BadFile("JSONLinesLogger: `" + path + "` is not a log: " + error.what + " at byte " +
                  std::to_string(error.offset) + ". Name another file, or remove this one.");
  }
  return is_before(start, step, epoch, path);
}

inline std::string lines_before(const LogStart& start, const std::string& text,
                                const std::string& path) {
  std::string kept;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
    end = text.find('\n', begin) + 1;  // the text ends with a line break
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (is_line_before(start, line.substr(0, line.size() - 1), begin, path)) kept += line;
  }
  return kept;
}

/// Writes a whole number without a point, as Python's `json` does.
inline void write_number(JsonWriter& json, double value) {
  constexpr double whole = 9007199254740992;  // 2^53
  const bool is_whole = std::abs(value) < whole && std::trunc(value) == value;
  if (is_whole && !(value == 0 && std::signbit(value)))
    json.integer(static_cast<std::int64_t>(value));
  else json.number(value);
}

}  // namespace detail

IKEBANA_INLINE JSONLinesLogger::JSONLinesLogger(std::string path)
    : log_(detail::make_shared_apart<detail::LineLog>(std::move(path))) {}

IKEBANA_INLINE void JSONLinesLogger::begin(const LogStart& start) {
  if (start.resumed)
    log_->open_kept(
        [&](const std::string& text) { return detail::lines_before(start, text, log_->path()); });
  else if (!log_->is_open()) log_->open_new();
}

IKEBANA_INLINE void JSONLinesLogger::write(const std::string& kind, const LogRow& row) const {
  detail::JsonWriter json({.not_finite = detail::JsonStyle::NotFinite::Text});
  json.object([&] {
    json.member("kind", kind);
    for (const auto& [name, value] : row) {
      json.key(name);
      detail::write_number(json, value);
    }
  });
  log_->add(std::move(json).text() + "\n");
}

}  // namespace ikebana
