#pragma once
// Environment variables as checked values.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// The variables that a process was started with. Every error names the variable and its value.
class Environment {
 public:
  using Get = std::function<const char*(const char*)>;
  /// `get` is std::getenv; `parent` is the process that started this one.
  Environment(Get get, std::int64_t parent) : get_(std::move(get)), parent_(parent) {}
  static Environment of_process();

  std::int64_t parent() const { return parent_; }
  bool has(const char* name) const { return name != nullptr && get_(name) != nullptr; }
  bool has_any(std::initializer_list<const char*> names) const;
  /// The value, which must not be empty; "" where it is not set.
  std::string text(const char* name) const;
  /// A whole number from `min` to `max`. It must be set.
  std::int64_t number(const char* name, std::int64_t min, std::int64_t max) const;
  /// `World: RANK is "x"`, for an error.
  std::string quoted(const char* name) const;

 private:
  Get get_;
  std::int64_t parent_;
};

/// Slurm's tasks on each node: "2(x3),1" stands for 2, 2, 2 and 1. Nothing where it cannot be read.
std::optional<std::vector<std::int64_t>> tasks_per_node(const std::string& text);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/environment.ipp>
#endif
