#pragma once
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/child.hpp>
#include <ikebana/posix/terminal.hpp>
#include <ikebana/shard/launch/rank_processes.hpp>

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
  if (c == '\r') {  // e.g. of a progress bar, which overwrites its line
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

/// Returns this process's variables, together with the variables of one rank of `launch`.
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

IKEBANA_INLINE RankProcesses::RankProcesses(int argc, char** argv, std::int64_t size) {
  Listener listener;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    ChildStart start{.arguments = {argv, argv + argc},
                     .environment = rank_environment(rank, size, listener)};
    start.inherited = rank == 0 ? listener.descriptor() : -1;
    start.reads_stdin = rank == 0 && !stdin_is_terminal();
    ranks_.push_back({Child(start, signals_), {}});
  }
}

IKEBANA_INLINE int RankProcesses::run() {
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

IKEBANA_INLINE bool RankProcesses::any_runs() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r.process.runs(); });
}

IKEBANA_INLINE std::vector<int> RankProcesses::descriptors() const {
  std::vector<int> all{signals_.descriptor()};
  for (const Rank& rank : ranks_) all.push_back(rank.process.stderr_descriptor());
  return all;
}

IKEBANA_INLINE int RankProcesses::milliseconds_to_wait() const {
  const bool flushed =
      std::all_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r.relay.is_flushed(); });
  return failures_.empty() && flushed ? -1 : 100;
}

IKEBANA_INLINE std::vector<pid_t> RankProcesses::handle_signals() {
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

IKEBANA_INLINE void RankProcesses::send(int signal) const {
  for (const Rank& rank : ranks_) rank.process.send(signal);
}

IKEBANA_INLINE void RankProcesses::relay() {
  for (Rank& rank : ranks_) {
    const std::string text = rank.process.read_stderr();
    if (!text.empty()) rank.relay.add(text);
    else rank.relay.flush();
  }
}

IKEBANA_INLINE void RankProcesses::reap(const std::vector<pid_t>& first) {
  for (const pid_t id : first)
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].process.id() == id) reap(r);
  for (std::size_t r = 0; r < ranks_.size(); ++r) reap(r);
}

IKEBANA_INLINE void RankProcesses::reap(std::size_t r) {
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

IKEBANA_INLINE const RankProcesses::Failure& RankProcesses::cause() const {
  for (const Failure& failure : failures_)
    if (!ended_ranks_.contains(failure.rank) && failure.end.code != exit_other_rank_failed)
      return failure;
  return failures_.front();
}

IKEBANA_INLINE void RankProcesses::end_others() {
  if (failures_.empty() || !any_runs()) return;
  const bool is_late = Clock::now() > first_failure_ + patience;
  if (!ends_) {
    // The rank that is the cause may not have ended yet.
    if (cause().end.code == exit_other_rank_failed && !is_late) return;
    ends_ = Clock::now();
    if (was_passed_on(cause().end.signal)) return;  // also to the others, which are ending
    write_to_stderr("launch: " + described(cause()) + "; ending the other ranks.\n");
    signal_others(SIGTERM);
  } else if (Clock::now() > *ends_ + patience) {
    signal_others(SIGKILL);
  }
}

IKEBANA_INLINE void RankProcesses::signal_others(int signal) {
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].process.runs()) ranks_[r].process.send(signal), ended_ranks_.insert(r);
}

IKEBANA_INLINE std::string RankProcesses::described(const Failure& failure) const {
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

IKEBANA_INLINE void RankProcesses::report() const {
  const Failure& failure = cause();
  std::string text = "launch: " + described(failure) + ".";
  const std::string tail = ranks_[failure.rank].relay.tail("  ");
  if (was_passed_on(failure.end.signal)) text += "\n";
  else if (tail.empty()) text += " It wrote nothing to stderr.\n";
  else text += " The last lines of its stderr:\n" + tail;
  write_to_stderr(text);
}

}  // namespace ikebana::detail
