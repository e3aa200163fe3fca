#pragma once
// Names of processes by which others on the same machine see whether they have ended.
#include <unistd.h>
#include <string>

namespace ikebana::detail {

/// What the system says of a process, from /proc: its state, and when it was started.
struct ProcessStatus {
  char state = '?';
  std::string start;

  explicit ProcessStatus(pid_t id);
};

/// A process among all that were ever started: the machine since it was booted, the namespace of
/// process ids, the id, and when it was started.
class ProcessIdentity {
 public:
  static ProcessIdentity of_this();
  /// Back from `text`.
  static ProcessIdentity read(const std::string& text);
  std::string text() const { return place_ + " " + std::to_string(id_) + " " + start_; }
  /// True where it ran on the machine of `here`, which is this process, and has ended. A process
  /// that is stopped has not. Of another machine's nothing is known.
  bool has_ended(const ProcessIdentity& here) const;

 private:
  std::string place_, start_;
  pid_t id_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/process_identity.ipp>
#endif
