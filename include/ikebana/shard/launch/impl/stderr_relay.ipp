#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/child.hpp>
#include <ikebana/shard/launch/stderr_relay.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StderrRelay::add(const std::string& text) {
  open_ += text;
  const std::size_t end = open_.find_last_of("\r\n");
  if (end != open_.npos) pass(end + 1);
  if (open_.size() > max_open) flush();
}

IKEBANA_INLINE std::string StderrRelay::tail(const std::string& indent) const {
  std::string text;
  for (const std::string& line : lines_) text += indent + line + "\n";
  if (!last_.empty()) text += indent + last_ + "\n";
  return text;
}

IKEBANA_INLINE void StderrRelay::pass(std::size_t count) {
  if (count == 0) return;
  write_to_stderr(std::string_view(open_).substr(0, count));
  for (const char c : std::string_view(open_).substr(0, count)) keep(c);
  open_.erase(0, count);
}

IKEBANA_INLINE void StderrRelay::keep(char c) {
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

}  // namespace ikebana::detail
