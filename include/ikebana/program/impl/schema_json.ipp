#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/schema_json.hpp>
#include <limits>
#include <set>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE void SchemaJson::members(const char* where, const Members& members,
                                        std::initializer_list<std::string_view> required) {
  std::set<std::string> seen;
  object(where, [&](const std::string& name) {
    if (!seen.insert(name).second) fail("`" + Json::excerpt(name) + "` appears twice");
    const auto found = members.find(name);
    found == members.end() ? skip_value() : found->second();
  });
  for (const auto name : required)
    if (!seen.contains(std::string(name)))
      fail("`" + std::string(name) + "` is missing in " + where);
}

IKEBANA_INLINE void SchemaJson::choice(const char* where,
                                       const std::function<void(const std::string&)>& read) {
  int count = 0;
  object(where, [&](const std::string& name) { ++count, read(name); });
  if (count != 1) fail(std::string(where) + " has not one member");
}

IKEBANA_INLINE double SchemaJson::real() {
  if (!is_next('"')) return number();
  const std::string text = string();
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (text == "Infinity") return infinite;
  if (text == "-Infinity") return -infinite;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail("`" + Json::excerpt(text) + "` is no number");
}

}  // namespace ikebana::detail::pt2
