// Is run by `launch` as ranks, without LibTorch: program SCENARIO RANKS.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ikebana/shard/launch.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

using ikebana::World;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "-";
}

/// Writes a line at once, so that the lines of several ranks do not mix.
void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// Returns the descriptors that are open, without the one that lists them.
int open_descriptors() {
  int count = -1;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

int describe(const World& world) {
  auto of = [](std::int64_t a, std::int64_t b) {
    return std::to_string(a) + "/" + std::to_string(b);
  };
  say("rank " + of(world.rank, world.size) + " local " + of(world.local_rank, world.local_size) +
      " by " + world.started_by + " at " + world.master_addr + " port " +
      (world.master_port > 0 ? "yes" : "no") + " listens " + (world.listen_fd >= 0 ? "yes" : "no") +
      " descriptors " + std::to_string(open_descriptors()) + " threads " +
      variable("OMP_NUM_THREADS") + " elastic " + variable("TORCHELASTIC_RUN_ID"));
  return 0;
}

int sleep() {
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

/// Says which signals arrive, until SIGTERM.
int hear_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&all, signal);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  say("ready");
  for (int signal = 0; signal != SIGTERM;) {
    sigwait(&all, &signal);
    say("heard " + std::to_string(signal));
  }
  return 0;
}

[[noreturn]] void throw_nested() {
  try {
    throw std::out_of_range("row 7 of 5");
  } catch (...) {
    std::throw_with_nested(std::runtime_error("sample 3 was not read"));
  }
}

int fail_last(const std::string& scenario, const World& world) {
  const bool last = world.rank == world.size - 1;
  if (scenario == "follow" && !last) throw ikebana::RankFailed("another rank failed");
  if (scenario == "stubborn" && !last) signal(SIGTERM, SIG_IGN);
  if (!last) return sleep();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (scenario == "throw") throw_nested();
  if (scenario == "throw a number") throw 7;
  if (scenario == "256") return 256;
  for (int line = 1; line <= 30; ++line) std::cerr << "line " << line << "\n";
  std::cerr << "half\rwhole";
  if (scenario == "kill") raise(SIGKILL);
  return 5;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argv[1];
  const std::int64_t ranks = std::atoll(argv[2]);
  if (scenario == "void") return ikebana::launch(argc, argv, ranks, [] { say("trained"); });
  return ikebana::launch(argc, argv, ranks, [&](const World& world) {
    if (scenario == "describe") return describe(world);
    if (scenario == "hear") return hear_signals();
    if (scenario == "read") return say("read " + std::to_string(std::getchar())), 0;
    if (scenario == "sleep") return say("ready"), sleep();
    return fail_last(scenario, world);
  });
}
