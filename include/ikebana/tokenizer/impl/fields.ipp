#pragma once
#include <cmath>
#include <ikebana/tokenizer/fields.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

inline JsonValue read_json_value(Json& json, int depth) {
  if (depth > 32) json.fail("values are nested more than 32 deep");
  JsonValue value;
  using Kind = JsonValue::Kind;
  if (json.is_next('{')) {
    value.kind = Kind::Object;
    json.object("an object", [&](std::string& key) {
      for (const JsonMember& member : value.members)
        if (member.key == key) json.fail("`" + Json::excerpt(key) + "` is there twice");
      JsonValue inner = read_json_value(json, depth + 1);
      value.members.push_back({std::move(key), std::move(inner)});
    });
  } else if (json.is_next('[')) {
    value.kind = Kind::Array;
    json.array("an array", [&] { value.items.push_back(read_json_value(json, depth + 1)); });
  } else if (json.is_next('"')) {
    value.kind = Kind::String, value.string = json.string();
  } else if (json.is_next('t') || json.is_next('f')) {
    value.kind = Kind::Boolean, value.boolean = json.boolean();
  } else if (!json.skip_if_null()) {
    value.kind = Kind::Number, value.number = json.number();
  }
  return value;
}

inline Fields::Fields(const JsonValue& value, std::string place, Refusals& refusals)
    : value_(value),
      place_(std::move(place)),
      refusals_(refusals),
      is_known_(value.members.size()) {
  if (value.kind != JsonValue::Kind::Object) refuse("", "should be an object");
}

inline const JsonValue* Fields::find(const std::string& name) {
  for (std::size_t i = 0; i < value_.members.size(); ++i)
    if (value_.members[i].key == name) {
      is_known_[i] = true;
      return &value_.members[i].value;
    }
  return nullptr;
}

inline const JsonValue& Fields::need(const std::string& name) {
  static const JsonValue none;
  const JsonValue* value = find(name);
  if (value == nullptr && value_.kind == JsonValue::Kind::Object) refuse(name, "is missing");
  return value == nullptr ? none : *value;
}

inline const JsonValue* Fields::of_kind(const std::string& name, JsonValue::Kind kind,
                                        const char* what, bool is_needed) {
  const JsonValue* value = is_needed ? &need(name) : find(name);
  if (value == nullptr || value->kind == kind) return value;
  if (find(name) != nullptr && (is_needed || !value->is_null()))
    refuse(name, std::string("should be ") + what);
  return nullptr;
}

inline std::string Fields::string(const std::string& name) {
  const JsonValue* value = of_kind(name, JsonValue::Kind::String, "a string", true);
  return value == nullptr ? "" : value->string;
}
inline std::string Fields::string(const std::string& name, const std::string& otherwise) {
  return optional_string(name).value_or(otherwise);
}
inline std::optional<std::string> Fields::optional_string(const std::string& name) {
  const JsonValue* value = of_kind(name, JsonValue::Kind::String, "a string", false);
  return value == nullptr ? std::nullopt : std::optional(value->string);
}
inline bool Fields::boolean(const std::string& name) {
  const JsonValue* value = of_kind(name, JsonValue::Kind::Boolean, "true or false", true);
  return value != nullptr && value->boolean;
}
inline bool Fields::boolean(const std::string& name, bool otherwise) {
  const JsonValue* value = of_kind(name, JsonValue::Kind::Boolean, "true or false", false);
  return value == nullptr ? otherwise : value->boolean;
}

inline std::int64_t Fields::integer(const std::string& name) { return integer(need(name), name); }
inline std::int64_t Fields::integer(const JsonValue& value, const std::string& name) {
  const double n = value.number;
  if (value.kind == JsonValue::Kind::Number && n >= 0 && n < 2147483648.0 && n == std::floor(n))
    return static_cast<std::int64_t>(n);
  if (&value != find(name) || !value.is_null() || find(name) != nullptr)
    refuse(name, "should be a whole number from 0 to 2147483647");
  return 0;
}

inline char32_t Fields::character(const std::string& name) {
  const std::string text = string(name);
  if (!text.empty() && read_utf8(text, 0).bytes == text.size()) return read_utf8(text, 0).point;
  refuse(name, "should be one character");
  return U' ';
}

inline std::size_t Fields::choice(const std::string& name, const std::vector<std::string>& names,
                                  std::optional<std::size_t> otherwise) {
  if (otherwise && (find(name) == nullptr || find(name)->is_null())) return *otherwise;
  const std::string value = string(name);
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (value == names[i]) return i;
    all += (i == 0 ? "`" : i + 1 == names.size() ? "` or `" : "`, `") + names[i];
  }
  refuse(name, "is `" + Json::excerpt(value) + "`; " + all + "` are known");
  return 0;
}

inline std::optional<Regex> Fields::pattern(const std::string& name) {
  Fields fields(need(name), place(name), refusals_);
  const std::optional<std::string> text = fields.optional_string("String");
  const std::optional<std::string> regex = fields.optional_string("Regex");
  fields.finish();
  if (text.has_value() == regex.has_value()) {
    refuse(name, "should have either `String` or `Regex`");
    return {};
  }
  try {
    return Regex(text ? quoted_for_pcre2(*text) : to_pcre2(*regex));
  } catch (const Refused& refused) {
    refuse(name, "cannot be used: " + refused.what);
    return {};
  }
}

inline const std::vector<JsonValue>& Fields::array(const std::string& name) {
  static const std::vector<JsonValue> none;
  const JsonValue* value = of_kind(name, JsonValue::Kind::Array, "an array", true);
  return value == nullptr ? none : value->items;
}

inline void Fields::finish() {
  for (std::size_t i = 0; i < is_known_.size(); ++i)
    if (!is_known_[i]) refuse(Json::excerpt(value_.members[i].key), "is not known here");
}

}  // namespace ikebana::detail::tokenizer
