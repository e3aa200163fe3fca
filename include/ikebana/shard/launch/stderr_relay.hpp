#pragma once
// What a rank writes to stderr: passed on line by line, the last lines kept.
#include <cstring>
#include <deque>
#include <string>

namespace ikebana::detail {

/// Passes text on in whole lines, so that the lines of several ranks do not mix, and keeps the last
/// ones for an error report.
class StderrRelay {
 public:
  void add(const std::string& text);
  /// Passes on what has no end of line yet.
  void flush() { pass(open_.size()); }
  bool is_flushed() const { return open_.empty(); }

  /// The last lines, each indented by `indent`.
  std::string tail(const std::string& indent) const;

 private:
  static constexpr std::size_t max_open = 8192, max_lines = 20, max_columns = 1000;

  void pass(std::size_t count);
  void keep(char c);

  std::string open_, last_;  // not passed on yet; the last line
  std::deque<std::string> lines_;
  bool returned_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/stderr_relay.ipp>
#endif
