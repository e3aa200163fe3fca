#pragma once
// Names of processes, by which others on the same machine see if they have ended.
#include <unistd.h>
#include <string>

namespace ikebana::detail {

/// The state of a process and the time of its start, from /proc.
struct ProcessStatus {
  char state = '?';
  std::string start;

  explicit ProcessStatus(pid_t id);
};

/// Identifies a process among all that ever ran, by the boot of the machine, the namespace of
/// process ids, the id, and the time of its start.
class ProcessIdentity {
 public:
  static ProcessIdentity of_this();
  /// Reads what `text` returned.
  static ProcessIdentity read(const std::string& text);
  std::string text() const { return place_ + " " + std::to_string(id_) + " " + start_; }
  /// Returns true if it ran on the machine of `here`, which is this process, and has ended. A
  /// process that is stopped has not ended. Returns false for a process of another machine, of
  /// which nothing is known.
  bool has_ended(const ProcessIdentity& here) const;

 private:
  std::string place_, start_;
  pid_t id_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/process_identity.ipp>
#endif
