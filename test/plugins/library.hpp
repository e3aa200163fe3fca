#pragma once
// Opens plugins in processes of their own. The programs do not use LibTorch, so doctest is included
// without test.hpp.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plugin.hpp"

namespace test::plugins {

/// The first is the library that is opened first, which installs the engine, and the second is the
/// other one.
inline const std::vector<std::pair<std::string, std::string>> pairs{
    {PLUGIN_A, PLUGIN_B},
#ifdef PLUGIN_OF_CLANG
    {PLUGIN_A, PLUGIN_OF_CLANG},
    {PLUGIN_OF_CLANG, PLUGIN_A},
#endif
};

/// Prints which expectations failed, and remembers that one did.
struct Expectations {
  bool all_hold = true;
  void expect(bool holds, const char* what) {
    if (!holds) std::fprintf(stderr, "does not hold: %s\n", what);
    all_hold = all_hold && holds;
  }
};

struct Library {
  explicit Library(const std::string& file) : handle(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) throw std::runtime_error(dlerror());
    plugin = reinterpret_cast<PluginEntry>(dlsym(handle, "ikebana_test_plugin"))();
  }
  const Plugin* operator->() const { return plugin; }
  void* handle;
  const Plugin* plugin;
};

/// Runs `body` in a process of its own, which ends by std::exit, so that destructors of statics
/// run.
template <class Body>
bool in_own_process(Body body) {
  std::fflush(nullptr);
  const auto child = fork();
  if (child == 0) {
    Expectations expectations;
    try {
      body(expectations);
    } catch (const std::exception& error) {
      expectations.expect(false, error.what());
    }
    std::exit(expectations.all_hold ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Calls `body(first, second, expectations)` for each pair of libraries.
template <class Body>
void for_each_pair(Body body) {
  for (const auto& [first, second] : pairs) {
    INFO(first << " before " << second);
    CHECK(in_own_process(
        [&, a = first, b = second](Expectations& expectations) { body(a, b, expectations); }));
  }
}

}  // namespace test::plugins
