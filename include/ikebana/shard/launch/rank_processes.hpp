#pragma once
// Defines the processes that launch starts: their signals, their stderr, and what happens when one
// fails.
#include <chrono>
#include <cstring>
#include <deque>
#include <ikebana/error.hpp>
#include <ikebana/posix/child.hpp>
#include <ikebana/posix/sockets.hpp>
#include <map>
#include <set>
#include <string>

namespace ikebana::detail {

/// Passes on what a rank writes to stderr, in whole lines, so that the lines of several ranks do
/// not mix, and keeps the last lines for an error report.
class StderrRelay {
 public:
  void add(const std::string& text);
  /// Passes on text that has no end of line yet.
  void flush() { pass(open_.size()); }
  bool is_flushed() const { return open_.empty(); }

  /// Returns the last lines, each indented by `indent`.
  std::string tail(const std::string& indent) const;

 private:
  static constexpr std::size_t max_open = 8192, max_lines = 20, max_columns = 1000;

  void pass(std::size_t count);
  void keep(char c);

  std::string open_, last_;  // text not passed on yet; the last line
  std::deque<std::string> lines_;
  bool returned_ = false;
};

/// The exit code of a rank that RankFailed ended, so that another rank is the cause: EX_TEMPFAIL of
/// sysexits.h.
inline constexpr int exit_other_rank_failed = 75;

/// Starts this program again as `size` ranks and waits for all of them. Once one fails, the others
/// get SIGTERM, and SIGKILL after `patience`.
class RankProcesses {
 public:
  RankProcesses(int argc, char** argv, std::int64_t size);

  /// Returns the exit code: 0, or the code of the first rank that failed.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds patience{5};
  struct Rank {
    Child process;
    StderrRelay relay;
  };
  struct Failure {
    std::size_t rank;
    ChildEnd end;
  };

  bool any_runs() const;
  std::vector<int> descriptors() const;
  /// Returns the time to wait, or -1 if nothing is to be done until something arrives.
  int milliseconds_to_wait() const;

  /// Passes signals on, at most one of a kind in a second: a supervisor may signal a process and
  /// its group, and a rank may take a second SIGTERM for an order to end at once. Returns the
  /// children that are known to have ended, in this order.
  std::vector<pid_t> handle_signals();
  void send(int signal) const;
  void relay();

  /// Reaps the processes in `first`, which are known to have ended, and then all others: a second
  /// SIGCHLD is lost while one is pending.
  void reap(const std::vector<pid_t>& first);
  void reap(std::size_t r);

  /// Returns the failure to report, which is the first one that another rank did not cause.
  const Failure& cause() const;
  bool was_passed_on(int signal) const { return passed_on_.contains(signal); }

  void end_others();
  void signal_others(int signal);

  std::string described(const Failure& failure) const;
  void report() const;

  SignalPipe signals_;
  std::vector<Rank> ranks_;
  std::vector<Failure> failures_;      // in the order of their ends
  std::set<std::size_t> ended_ranks_;  // the ranks that were sent a signal because another one had
                                       // failed
  std::map<int, Clock::time_point> passed_on_;
  Clock::time_point first_failure_{};
  std::optional<Clock::time_point> ends_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/rank_processes.ipp>
#endif
