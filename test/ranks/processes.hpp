#pragma once
// Ranks of a test as processes, over a store of TCP and Gloo: the program runs one of its own test
// cases in each.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ikebana/posix/sockets.hpp>
#include <sstream>

#include "groups.hpp"

namespace test::ranks::processes {

/// One of several processes: what it is to do, and where it writes what it has seen.
struct Role {
  std::string name, folder;
  ikebana::ProcessGroup group;

  static Role of_environment(std::chrono::milliseconds timeout) {
    return {std::getenv("IKEBANA_TEST_ROLE"), std::getenv("IKEBANA_TEST_FOLDER"),
            ikebana::ProcessGroup(ikebana::World::from_environment(), {.timeout = timeout})};
  }
  std::ofstream file() const { return std::ofstream(folder + "/" + std::to_string(group.rank())); }
};

/// Runs a test case of this program in `size` processes, as `name`. Processes that have not ended
/// are killed.
class Processes {
 public:
  Processes(const std::string& name, std::int64_t size,
            const std::string& test_case = "ranks: one of several processes")
      : test_case_("-tc=" + test_case) {
    folder_ = std::filesystem::temp_directory_path() /
              ("ikebana_ranks_" + std::to_string(getpid()) + "_" + name);
    std::filesystem::create_directory(folder_);
    const std::string port = std::to_string(ikebana::detail::Listener().port());
    for (std::int64_t rank = 0; rank < size; ++rank) {
      const pid_t child = fork();
      if (child == 0) run(name, rank, size, port);
      REQUIRE(child > 0);
      children_.push_back(child);
    }
  }
  ~Processes() {
    for (const pid_t child : children_)
      if (child > 0) kill(child, SIGKILL), waitpid(child, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Returns the exit code of a rank, or -1 if a signal ended it.
  int ended(std::size_t rank) {
    int status = -1;
    const bool waited = waitpid(children_[rank], &status, 0) == children_[rank];
    children_[rank] = 0;
    return waited && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::filesystem::path& folder() const { return folder_; }
  std::string written(std::size_t rank) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / std::to_string(rank)).rdbuf();
    return text.str();
  }

 private:
  [[noreturn]] void run(const std::string& name, std::int64_t rank, std::int64_t size,
                        const std::string& port) const {
    auto set = [](const char* variable, const std::string& value) {
      setenv(variable, value.c_str(), 1);
    };
    set("RANK", std::to_string(rank)), set("WORLD_SIZE", std::to_string(size));
    set("MASTER_ADDR", "127.0.0.1"), set("MASTER_PORT", port), set("OMP_NUM_THREADS", "1");
    set("IKEBANA_TEST_ROLE", name), set("IKEBANA_TEST_FOLDER", folder_.string());
    execl("/proc/self/exe", "test_ranks", test_case_.c_str(), "--no-skip",
          static_cast<char*>(nullptr));
    _exit(127);
  }

  std::string test_case_;
  std::filesystem::path folder_;
  std::vector<pid_t> children_;  // 0: has ended
};

}  // namespace test::ranks::processes
