#pragma once
// What a rank writes to stderr: passed on line by line, the last lines kept.
#include <algorithm>
#include <deque>
#include <ikebana/posix/child.hpp>

namespace ikebana::detail {

/// Passes text on in whole lines, so that the lines of several ranks do not mix, and keeps the last
/// ones for an error report.
class StderrRelay {
 public:
  void add(const std::string& text) {
    open_ += text;
    const std::size_t end = open_.find_last_of("\r\n");
    if (end != open_.npos) pass(end + 1);
    if (open_.size() > max_open) flush();
  }
  /// Passes on what has no end of line yet.
  void flush() { pass(open_.size()); }
  bool is_flushed() const { return open_.empty(); }

  /// The last lines, each indented by `indent`.
  std::string tail(const std::string& indent) const {
    std::string text;
    for (const std::string& line : lines_) text += indent + line + "\n";
    if (!last_.empty()) text += indent + last_ + "\n";
    return text;
  }

 private:
  static constexpr std::size_t max_open = 8192, max_lines = 20, max_columns = 1000;

  void pass(std::size_t count) {
    if (count == 0) return;
    write_to_stderr(std::string_view(open_).substr(0, count));
    for (const char c : std::string_view(open_).substr(0, count)) keep(c);
    open_.erase(0, count);
  }
  void keep(char c) {
    if (c == '\r') {  // as of a progress bar, which is written over
      returned_ = true;
    } else if (c == '\n') {
      if (!last_.empty()) lines_.push_back(last_);
      if (lines_.size() > max_lines) lines_.pop_front();
      last_.clear(), returned_ = false;
    } else {
      if (returned_) last_.clear(), returned_ = false;
      if (last_.size() < max_columns) last_ += c;
    }
  }

  std::string open_, last_;  // not passed on yet; the last line
  std::deque<std::string> lines_;
  bool returned_ = false;
};

}  // namespace ikebana::detail
