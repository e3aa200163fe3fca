#pragma once
#include <signal.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/process_identity.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE ProcessStatus::ProcessStatus(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  std::string text;
  std::getline(file, text, '\0');                // empty if it has ended since the file was opened
  const std::size_t name_end = text.rfind(')');  // the name may have any characters
  if (name_end == text.npos) return;
  std::istringstream rest(text.substr(name_end + 1));
  rest >> state;
  for (int field = 4; field <= 22; ++field) rest >> start;
}

IKEBANA_INLINE ProcessIdentity ProcessIdentity::of_this() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  ProcessIdentity own;
  std::getline(boot, own.place_);
  char space[64] = {};
  if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) own.place_.clear();
  own.place_ += space;
  own.id_ = ::getpid(), own.start_ = ProcessStatus(own.id_).start;
  return own;
}

IKEBANA_INLINE ProcessIdentity ProcessIdentity::read(const std::string& text) {
  ProcessIdentity other;
  std::istringstream(text) >> other.place_ >> other.id_ >> other.start_;
  return other;
}

IKEBANA_INLINE bool ProcessIdentity::has_ended(const ProcessIdentity& here) const {
  if (place_.empty() || start_.empty() || place_ != here.place_ || id_ <= 0) return false;
  if (::kill(id_, 0) != 0 && errno == ESRCH) return true;
  const ProcessStatus now(id_);
  if (now.start.empty()) return false;  // this process may not read its status
  return now.state == 'Z' || now.state == 'X' || now.start != start_;
}

}  // namespace ikebana::detail
