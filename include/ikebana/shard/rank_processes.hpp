#pragma once
// The processes that launch starts: their signals, their stderr, and what happens when one fails.
#include <chrono>
#include <cstdlib>
#include <ikebana/error.hpp>
#include <ikebana/posix/listener.hpp>
#include <ikebana/posix/terminal.hpp>
#include <ikebana/shard/stderr_relay.hpp>
#include <map>
#include <set>

namespace ikebana::detail {

/// The exit code of a rank that RankFailed ended: another rank is the cause. EX_TEMPFAIL of
/// sysexits.h.
inline constexpr int exit_other_rank_failed = 75;

/// This process's variables, with those of one rank of `launch`.
inline std::vector<std::string> rank_environment(std::int64_t rank, std::int64_t size,
                                                 const Listener& listener) {
  std::vector<std::pair<std::string, std::string>> own{
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(size)},
      {"LOCAL_WORLD_SIZE", std::to_string(size)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(listener.port())},
      {"IKEBANA_LAUNCHER", std::to_string(::getpid())}};
  if (rank == 0) own.emplace_back("IKEBANA_LISTEN_FD", std::to_string(listener.descriptor()));
  if (const char* threads = std::getenv("OMP_NUM_THREADS"); threads == nullptr || *threads == 0)
    own.emplace_back("OMP_NUM_THREADS",
                     std::to_string(std::max<std::int64_t>(1, usable_processors() / size)));
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable, name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(own.begin(), own.end(), [&](const auto& o) { return o.first == name; });
    if (!replaced && !name.starts_with("TORCHELASTIC_") && name != "IKEBANA_LISTEN_FD")
      all.emplace_back(text);
  }
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  return all;
}

/// Starts this program again as `size` ranks and waits for all of them. Once one fails, the others
/// get SIGTERM, and SIGKILL after `patience`.
class RankProcesses {
 public:
  RankProcesses(int argc, char** argv, std::int64_t size) {
    Listener listener;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      ChildStart start{.arguments = {argv, argv + argc},
                       .environment = rank_environment(rank, size, listener)};
      start.inherited = rank == 0 ? listener.descriptor() : -1;
      start.reads_stdin = rank == 0 && !stdin_is_terminal();
      ranks_.push_back({Child(start, signals_), {}});
    }
  }

  /// The exit code: 0, or that of the first rank that failed.
  int run() {
    while (any_runs()) {
      wait_readable(descriptors(), milliseconds_to_wait());
      std::vector<pid_t> ended = handle_signals();
      relay();
      reap(ended);
      end_others();
    }
    if (failures_.empty()) return 0;
    report();
    return cause().end.exit_code();
  }

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

  bool any_runs() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r.process.runs(); });
  }
  std::vector<int> descriptors() const {
    std::vector<int> all{signals_.descriptor()};
    for (const Rank& rank : ranks_) all.push_back(rank.process.stderr_descriptor());
    return all;
  }
  /// -1 where nothing is to be done until something arrives.
  int milliseconds_to_wait() const {
    const bool flushed =
        std::all_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r.relay.is_flushed(); });
    return failures_.empty() && flushed ? -1 : 100;
  }

  /// Passes signals on, at most one of a kind in a second: a supervisor may signal a process and
  /// its group, and a rank may take a second SIGTERM for an order to end at once. The children that
  /// ended, in this order where it is known.
  std::vector<pid_t> handle_signals() {
    std::vector<pid_t> ended;
    for (const auto& [signal, sender] : signals_.read()) {
      if (signal == SIGCHLD) {
        ended.push_back(sender);
      } else if (signal == SIGTSTP) {
        send(SIGTSTP);
        stop_this_process();
        send(SIGCONT);
      } else if (auto& last = passed_on_[signal]; last + std::chrono::seconds(1) < Clock::now()) {
        last = Clock::now();
        send(signal);
      }
    }
    return ended;
  }
  void send(int signal) const {
    for (const Rank& rank : ranks_) rank.process.send(signal);
  }
  void relay() {
    for (Rank& rank : ranks_) {
      const std::string text = rank.process.read_stderr();
      if (!text.empty()) rank.relay.add(text);
      else rank.relay.flush();
    }
  }

  /// Those that are known to have ended first, then all others: a second SIGCHLD is lost while one
  /// is pending.
  void reap(const std::vector<pid_t>& first) {
    for (const pid_t id : first)
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (ranks_[r].process.id() == id) reap(r);
    for (std::size_t r = 0; r < ranks_.size(); ++r) reap(r);
  }
  void reap(std::size_t r) {
    auto& [process, relay] = ranks_[r];
    const auto end = process.end();
    if (!end) return;
    relay.add(process.read_stderr());
    relay.flush();
    process.close_stderr();  // a process that the rank started may have it open for long
    if (!end->failed()) return;
    if (failures_.empty()) first_failure_ = Clock::now();
    failures_.push_back({r, *end});
  }

  /// The failure to report: the first that is not the consequence of another rank's.
  const Failure& cause() const {
    for (const Failure& failure : failures_)
      if (!ended_ranks_.contains(failure.rank) && failure.end.code != exit_other_rank_failed)
        return failure;
    return failures_.front();
  }
  bool was_passed_on(int signal) const { return passed_on_.contains(signal); }

  void end_others() {
    if (failures_.empty() || !any_runs()) return;
    const bool is_late = Clock::now() > first_failure_ + patience;
    if (!ends_) {
      // The rank that is the cause may not have ended yet.
      if (cause().end.code == exit_other_rank_failed && !is_late) return;
      ends_ = Clock::now();
      if (was_passed_on(cause().end.signal)) return;  // to the others too, which are ending
      write_to_stderr("launch: " + described(cause()) + "; ending the other ranks.\n");
      signal_others(SIGTERM);
    } else if (Clock::now() > *ends_ + patience) {
      signal_others(SIGKILL);
    }
  }
  void signal_others(int signal) {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].process.runs()) ranks_[r].process.send(signal), ended_ranks_.insert(r);
  }

  std::string described(const Failure& failure) const {
    const ChildEnd& end = failure.end;
    std::string text =
        "rank " + std::to_string(failure.rank) + " of " + std::to_string(ranks_.size());
    if (end.signal == 0) text += " failed with exit code " + std::to_string(end.code);
    else text += " was ended by " + signal_name(end.signal);
    if (end.code == exit_other_rank_failed) text += ", since another rank failed or did not answer";
    if (was_passed_on(end.signal)) text += ", which launch passed on to all ranks";
    else if (end.signal == SIGKILL) text += ", as by the system where memory runs out";
    return text;
  }
  void report() const {
    const Failure& failure = cause();
    std::string text = "launch: " + described(failure) + ".";
    const std::string tail = ranks_[failure.rank].relay.tail("  ");
    if (was_passed_on(failure.end.signal)) text += "\n";
    else if (tail.empty()) text += " It wrote nothing to stderr.\n";
    else text += " The last lines of its stderr:\n" + tail;
    write_to_stderr(text);
  }

  SignalPipe signals_;
  std::vector<Rank> ranks_;
  std::vector<Failure> failures_;      // in their order
  std::set<std::size_t> ended_ranks_;  // which were sent a signal since another had failed
  std::map<int, Clock::time_point> passed_on_;
  Clock::time_point first_failure_{};
  std::optional<Clock::time_point> ends_;
};

}  // namespace ikebana::detail
