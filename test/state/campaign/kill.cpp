// Trainings are killed by SIGKILL, at random instants and at every system call, and resumed until
// they complete: the last state has the bits of an uninterrupted training.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "state/campaign/campaign.hpp"
#include "state/campaign/training.hpp"
#include "state/folder.hpp"

namespace campaign {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

/// Starts a process that trains. It inherits LibTorch, which is loaded and was not used.
template <class Before>
pid_t start(const fs::path& folder, bool async, Before&& before) {
  const pid_t pid = ::fork();
  require(pid >= 0, "no process could be made");
  if (pid > 0) return pid;
  int status = 1;
  try {
    before();
    train(folder, async);
    status = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the training failed: %s\n", error.what());
  }
  ::_exit(status);
}
int wait_for(pid_t pid) {
  int status = 0;
  require(::waitpid(pid, &status, __WALL) == pid, "lost a process");
  return status;
}
void finish(const fs::path& folder, bool async) {
  const int status = wait_for(start(folder, async, [] {}));
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a resumed training failed");
}
std::string bytes_of(const fs::path& path) {
  std::string bytes;
  auto file = system_files().open(path);
  bytes.resize(file->size());
  file->read(0, bytes.data(), bytes.size());
  return bytes;
}
/// Returns the files of the last state and of the best state.
std::string end_of(const fs::path& folder) {
  return bytes_of(folder.string() + ".end") + bytes_of(folder / "best.safetensors");
}

/// The last state of an uninterrupted training, and how long the training takes.
struct Uninterrupted {
  test::Folder folder;
  std::string end;
  double seconds;

  Uninterrupted() {
    auto begin = std::chrono::steady_clock::now();
    finish(folder / "run", false);
    seconds = Seconds(std::chrono::steady_clock::now() - begin).count();
    end = end_of(folder / "run");
  }
  void compare(const fs::path& run, const std::string& when) const {
    require(end_of(run) == end, "the last or the best state differs: " + when);
  }
};

/// Kills and resumes a training until one completes first. Returns how often it was killed.
int killed_at_random(const fs::path& run, bool async, double seconds, std::mt19937_64& random) {
  for (int kills = 0;; ++kills) {
    const double delay = std::uniform_real_distribution(0.0, 1.1 * seconds)(random);
    const pid_t pid = start(run, async, [] {});
    std::this_thread::sleep_for(Seconds(delay));
    ::kill(pid, SIGKILL);
    const int status = wait_for(pid);
    if (!WIFSIGNALED(status)) {
      require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a training failed");
      return kills;
    }
  }
}

/// Runs a training and stops it before and after each of its system calls; kills it at stop `k`.
/// Returns the number of stops if it completed before.
std::int64_t killed_at_call(const fs::path& run, bool async, std::int64_t k) {
  const pid_t pid = start(run, async, [] {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
  });
  wait_for(pid);
  constexpr long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
  require(::ptrace(PTRACE_SETOPTIONS, pid, nullptr, options) == 0, "ptrace is not allowed here");
  std::int64_t stops = 0;
  ::ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr);
  while (true) {
    int status = 0;
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    require(thread > 0, "lost a process");
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread == pid) return stops;
      continue;
    }
    const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    if (is_call && stops++ == k) ::kill(pid, SIGKILL);
    const bool passes = WIFSTOPPED(status) && !is_call && WSTOPSIG(status) != SIGTRAP &&
                        WSTOPSIG(status) != SIGSTOP;
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, passes ? long{WSTOPSIG(status)} : 0L);
  }
}

}  // namespace

void kill(std::int64_t count) {
  const Uninterrupted reference;
  std::mt19937_64 random(1);
  std::int64_t kills = 0, runs = count > 0 ? count : 1000;
  for (std::int64_t i = 0; i < runs; ++i) {
    const test::Folder folder;
    const bool async = i % 2 == 1;
    kills += killed_at_random(folder / "run", async, reference.seconds, random);
    reference.compare(folder / "run", "run " + std::to_string(i));
  }
  std::printf(
      "kill: %lld trainings were killed %lld times at random instants and resumed until "
      "done: each ended with the bits of one that was not\n",
      static_cast<long long>(runs), static_cast<long long>(kills));
}

void calls(std::int64_t count) {
  const Uninterrupted reference;
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  std::int64_t tried = 0, all = 0;
  for (const bool async : {false, true}) {
    const test::Folder dry;
    const std::int64_t stops = killed_at_call(dry / "run", async, never);
    reference.compare(dry / "run", "watched");
    all += stops;
    const std::int64_t stride = count > 0 ? std::max<std::int64_t>(2 * stops / count, 1) : 1;
    for (std::int64_t k = 0; k < stops; k += stride, ++tried) {
      const test::Folder folder;
      killed_at_call(folder / "run", async, k);
      finish(folder / "run", async);
      reference.compare(folder / "run", "killed at system call " + std::to_string(k));
    }
  }
  std::printf(
      "calls: killed before or after %lld of the %lld instants of a system call of a "
      "training and its saves, and resumed: each ended with the bits of one that was not\n",
      static_cast<long long>(tried), static_cast<long long>(all));
}

}  // namespace campaign
