#pragma once
#include <algorithm>
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/shard_paths.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <set>

namespace ikebana {
namespace detail {

inline constexpr std::size_t max_shards = 10'000'000;

[[noreturn]] inline void fail_braces(const std::string& pattern) {
  throw BadValue(
      "shards: the braces in `" + pattern +
      "` are neither a range such as {000..127} nor a list such as {a,b}. Correct them.");
}

/// Returns the numbers of a range, such as 08, 09, 10 for `08..10`, with as many digits as its
/// first one has.
inline std::vector<std::string> range_of_numbers(const std::string& inside,
                                                 const std::string& pattern) {
  const auto dots = inside.find("..");
  const std::string first = inside.substr(0, dots), last = inside.substr(dots + 2);
  for (const auto& number : {first, last})
    if (number.empty() || number.size() > 18 ||
        number.find_first_not_of("0123456789") != number.npos)
      fail_braces(pattern);
  const std::uint64_t begin = std::stoull(first), end = std::stoull(last);
  if (end < begin || end - begin >= max_shards) fail_braces(pattern);
  std::vector<std::string> numbers;
  for (std::uint64_t i = begin; i <= end; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return numbers;
}

inline std::vector<std::string> list_of_texts(const std::string& inside) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0;;) {
    const auto comma = inside.find(',', begin);
    texts.push_back(inside.substr(begin, comma - begin));
    if (comma == inside.npos) return texts;
    begin = comma + 1;
  }
}

IKEBANA_INLINE std::vector<std::string> expanded_braces(const std::string& pattern) {
  const auto open = pattern.find('{');
  if (open == pattern.npos) {
    if (pattern.find('}') != pattern.npos) fail_braces(pattern);
    return {pattern};
  }
  const auto close = pattern.find('}', open);
  if (close == pattern.npos) fail_braces(pattern);
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  const bool is_range = inside.find("..") != inside.npos;
  if (inside.find('{') != inside.npos || (!is_range && inside.find(',') == inside.npos))
    fail_braces(pattern);
  std::vector<std::string> all;
  const auto rest = expanded_braces(pattern.substr(close + 1));
  for (const auto& part : is_range ? range_of_numbers(inside, pattern) : list_of_texts(inside))
    for (const auto& end : rest) {
      if (all.size() == max_shards) fail_braces(pattern);
      all.push_back(pattern.substr(0, open) + part + end);
    }
  return all;
}

/// Adds the files of a folder whose names match, sorted.
inline void add_matches(const std::filesystem::path& pattern,
                        std::vector<std::filesystem::path>& paths) {
  std::vector<std::string> names = system_files().list(folder_of(pattern));
  std::erase_if(names, [&](const std::string& name) {
    return name.starts_with('.') || !matches_pattern(name, pattern.filename().string());
  });
  if (names.empty())
    throw BadValue("shards: no file matches `" + pattern.string() +
                   "`. Correct the pattern, or write the shards first.");
  std::sort(names.begin(), names.end());
  for (const auto& name : names) paths.push_back(pattern.parent_path() / name);
}

}  // namespace detail

IKEBANA_INLINE ShardPaths::ShardPaths(const std::string& pattern) {
  if (pattern.find("://") != pattern.npos || pattern.starts_with("pipe:"))
    throw BadValue("shards: `" + pattern +
                   "` is no path of files. Copy the shards to a disk of this machine first.");
  for (const auto& text : detail::expanded_braces(pattern)) {
    const std::filesystem::path path(text);
    if (path.filename().string().find_first_of("*?[") == std::string::npos) paths_.push_back(path);
    else detail::add_matches(path, paths_);
  }
  check();
}

IKEBANA_INLINE ShardPaths::ShardPaths(std::vector<std::filesystem::path> paths)
    : paths_(std::move(paths)) {
  check();
}

IKEBANA_INLINE void ShardPaths::check() const {
  if (paths_.empty()) throw BadValue("shards: the list of paths is empty. Name at least one file.");
  std::set<std::filesystem::path> seen;
  for (const auto& path : paths_)
    if (!seen.insert(path.lexically_normal()).second)
      throw BadValue("shards: `" + path.string() +
                     "` comes twice, so that its samples would be read twice. Name it once.");
}

}  // namespace ikebana
