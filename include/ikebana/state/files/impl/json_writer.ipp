#pragma once
#include <charconv>
#include <cmath>
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void JsonWriter::key(std::string_view name) {
  check(in_object_ && !has_key_);
  comma();
  text_ += quoted(name) + (style_.spaces ? ": " : ":");
  has_key_ = true;
}

IKEBANA_INLINE void JsonWriter::string(std::string_view text) { scalar(quoted(text)); }

IKEBANA_INLINE void JsonWriter::number(double value) {
  if (!std::isfinite(value)) {
    if (style_.not_finite == JsonStyle::NotFinite::Error)
      throw BadValue("json: a number is " + std::to_string(value) +
                     ", which JSON cannot hold. Write finite numbers.");
    return string(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string text(digits, static_cast<std::size_t>(end - digits));
  if (text.find_first_of(".e") == text.npos) text += ".0";
  scalar(text);
}

IKEBANA_INLINE std::string JsonWriter::text() && {
  check(depth_ == 0 && !text_.empty());
  return std::move(text_);
}

IKEBANA_INLINE bool JsonWriter::open(char mark, bool is_object) {
  begin_value();
  text_ += mark;
  ++depth_, needs_comma_ = false;
  return std::exchange(in_object_, is_object);
}

IKEBANA_INLINE void JsonWriter::close(char mark, bool is_outer_object) {
  check(!has_key_);
  text_ += mark;
  --depth_, needs_comma_ = true, in_object_ = is_outer_object;
}

IKEBANA_INLINE void JsonWriter::scalar(std::string_view text) {
  begin_value();
  text_ += text;
  needs_comma_ = true;
}

IKEBANA_INLINE void JsonWriter::begin_value() {
  check(depth_ > 0 ? in_object_ == has_key_ : text_.empty());
  if (!has_key_) comma();
  has_key_ = false;
}

IKEBANA_INLINE void JsonWriter::comma() {
  if (needs_comma_) text_ += style_.spaces ? ", " : ",";
}

IKEBANA_INLINE std::string JsonWriter::quoted(std::string_view text) const {
  std::string json = Json::quoted(text);
  if (style_.in_html)
    for (std::size_t at; (at = json.find('<')) != json.npos;) json.replace(at, 1, "\\u003c");
  return json;
}

IKEBANA_INLINE void JsonWriter::check(bool is_in_place) {
  if (!is_in_place) throw Error("json: a call in the wrong place");
}

}  // namespace ikebana::detail
