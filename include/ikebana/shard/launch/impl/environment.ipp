#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/shard/launch/environment.hpp>
#include <system_error>

namespace ikebana::detail {

IKEBANA_INLINE Environment Environment::of_process() {
  return {[](const char* name) { return std::getenv(name); }, parent_process()};
}

IKEBANA_INLINE bool Environment::has_any(std::initializer_list<const char*> names) const {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return has(name); });
}

IKEBANA_INLINE std::string Environment::text(const char* name) const {
  if (!has(name)) return {};
  std::string value = get_(name);
  if (value.empty())
    throw BadValue(std::string("World: ") + name +
                   " is set in the environment, but empty. Give it a value or unset it.");
  return value;
}

IKEBANA_INLINE std::int64_t Environment::number(const char* name, std::int64_t min,
                                                std::int64_t max) const {
  const std::string value = text(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  if (whole && number >= min && number <= max) return number;
  throw BadValue(quoted(name) + " in the environment; it must be a whole number from " +
                 std::to_string(min) + " to " + std::to_string(max) + ".");
}

IKEBANA_INLINE std::string Environment::quoted(const char* name) const {
  return std::string("World: ") + name +
         (has(name) ? " is \"" + escaped(get_(name)) + "\"" : " is not set");
}

IKEBANA_INLINE std::optional<std::vector<std::int64_t>> tasks_per_node(const std::string& text) {
  std::vector<std::int64_t> tasks;
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more;) {
    std::int64_t count = 0, nodes = 1;
    auto read = std::from_chars(at, end, count);
    if (read.ec != std::errc() || count < 0) return {};
    at = read.ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      read = std::from_chars(at + 2, end, nodes);
      if (read.ec != std::errc() || nodes < 1 || nodes > 1'000'000) return {};
      if (read.ptr == end || *read.ptr != ')') return {};
      at = read.ptr + 1;
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
    more = at != end;
    if (more && *at++ != ',') return {};
  }
  return tasks;
}

}  // namespace ikebana::detail
