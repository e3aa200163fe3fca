#pragma once
// Lists the files that a pattern names: shards of a dataset.
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace ikebana {

/// The paths of shards, in their order: given as a list, or by a pattern with WebDataset's braces,
/// `train-{000000..000009}.tar` and `{train,extra}.tar`, and with the shell's `*`, `?` and `[...]`
/// in the file's name, whose matches are sorted. Throws BadValue for a pattern without a match, a
/// wrong brace, an address of a network and for a path that comes twice.
class ShardPaths {
 public:
  /// Takes a pattern, or a list of paths.
  ShardPaths(const char* pattern) : ShardPaths(std::string(pattern)) {}
  ShardPaths(const std::string& pattern);
  ShardPaths(const std::filesystem::path& pattern) : ShardPaths(pattern.string()) {}
  ShardPaths(std::vector<std::filesystem::path> paths);
  ShardPaths(const std::vector<std::string>& paths)
      : ShardPaths(std::vector<std::filesystem::path>(paths.begin(), paths.end())) {}

  /// Returns the paths, in their order.
  const std::vector<std::filesystem::path>& list() const { return paths_; }

 private:
  void check() const;

  std::vector<std::filesystem::path> paths_;
};

namespace detail {

/// Returns the texts that a pattern with braces stands for: `{08..10}` for 08, 09, 10, `{a,b}` for
/// a and b.
std::vector<std::string> expanded_braces(const std::string& pattern);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/shard_paths.ipp>
#endif
