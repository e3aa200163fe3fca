#pragma once
// Runs programs for a test, by commands of the shell.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace test::ranks::started {

struct Ended {
  int code = -1;
  std::string text;  // stdout and stderr
};

/// Returns what a command of the shell wrote, and its exit code. The command has a minute.
inline Ended run(const std::string& command) {
  Ended ended;
  std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  char bytes[4096];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, pipe))
    ended.text.append(bytes, count);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

/// Returns the path of this program.
inline std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }
/// Returns the command for test/ranks/started/program.cpp, with a time limit.
inline std::string program(const std::string& arguments) {
  return "timeout 60 '" + (own_path().parent_path() / "rank_program").string() + "' " + arguments;
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

/// Returns the command for Open MPI's mpirun on this host, which needs no ssh then.
inline std::string mpirun(const std::string& command) {
  const std::string root = geteuid() == 0 ? " --allow-run-as-root" : "";
  return "timeout 60 mpirun --oversubscribe --mca plm isolated" + root + " -np 2 " + command;
}

/// Runs torchrun by the Python that has torch; returns an empty text if none has it.
inline std::string torchrun(const std::string& arguments) {
  const auto root = std::filesystem::path(__FILE__).parent_path() / "../../..";
  const char* named = std::getenv("IKEBANA_ORACLE");
  const std::string python = named ? named : (root / ".oracle/bin/python").string();
  if (run("'" + python + "' -c 'import importlib.util as u; assert u.find_spec(\"torch\")'").code)
    return {};
  return "OMP_NUM_THREADS=1 timeout 60 '" + python +
         "' -m torch.distributed.run --no-python --nproc-per-node 2 " + arguments;
}

}  // namespace test::ranks::started
