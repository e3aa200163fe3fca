#pragma once
// Names of processes by which others on the same machine see whether they have ended.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

namespace ikebana::detail {

/// What the system says of a process, from /proc: its state, and when it was started.
struct ProcessStatus {
  char state = '?';
  std::string start;

  explicit ProcessStatus(pid_t id) {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    std::string text;
    std::getline(file, text, '\0');  // empty where it has ended since the file was opened
    const std::size_t name_end = text.rfind(')');  // the name may have any characters
    if (name_end == text.npos) return;
    std::istringstream rest(text.substr(name_end + 1));
    rest >> state;
    for (int field = 4; field <= 22; ++field) rest >> start;
  }
};

/// A process among all that were ever started: the machine since it was booted, the namespace of
/// process ids, the id, and when it was started.
class ProcessIdentity {
 public:
  static ProcessIdentity of_this() {
    std::ifstream boot("/proc/sys/kernel/random/boot_id");
    ProcessIdentity own;
    std::getline(boot, own.place_);
    char space[64] = {};
    if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) own.place_.clear();
    own.place_ += space;
    own.id_ = ::getpid(), own.start_ = ProcessStatus(own.id_).start;
    return own;
  }
  /// Back from `text`.
  static ProcessIdentity read(const std::string& text) {
    ProcessIdentity other;
    std::istringstream(text) >> other.place_ >> other.id_ >> other.start_;
    return other;
  }
  std::string text() const { return place_ + " " + std::to_string(id_) + " " + start_; }
  /// True where it ran on the machine of `here`, which is this process, and has ended. A process
  /// that is stopped has not. Of another machine's nothing is known.
  bool has_ended(const ProcessIdentity& here) const {
    if (place_.empty() || start_.empty() || place_ != here.place_ || id_ <= 0) return false;
    if (::kill(id_, 0) != 0 && errno == ESRCH) return true;
    const ProcessStatus now(id_);
    if (now.start.empty()) return false;  // it may not be looked at
    return now.state == 'Z' || now.state == 'X' || now.start != start_;
  }

 private:
  std::string place_, start_;
  pid_t id_ = 0;
};

}  // namespace ikebana::detail
