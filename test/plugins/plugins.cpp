// Opens the plugins as an application would, each in a scope of its own. Nothing here knows
// LibTorch, so doctest is included alone.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "plugin.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// Which library is opened first, and which second: the order decides whose engine it is.
const std::vector<std::pair<std::string, std::string>> pairs{
    {PLUGIN_A, PLUGIN_B},
#ifdef PLUGIN_OF_CLANG
    {PLUGIN_A, PLUGIN_OF_CLANG},
    {PLUGIN_OF_CLANG, PLUGIN_A},
#endif
};

/// Prints what did not hold, and remembers it.
struct Findings {
  bool good = true;
  void expect(bool holds, const char* what) {
    if (!holds) std::fprintf(stderr, "does not hold: %s\n", what);
    good = good && holds;
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

/// Runs `body` in a process of its own, which also ends as a program ends.
template <class Body>
bool apart(Body body) {
  std::fflush(nullptr);
  const auto child = fork();
  if (child == 0) {
    Findings findings;
    try {
      body(findings);
    } catch (const std::exception& error) {
      findings.expect(false, error.what());
    }
    std::exit(findings.good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// `body(first, second, findings)` for each pair of libraries.
template <class Body>
void for_each_pair(Body body) {
  for (const auto& [first, second] : pairs) {
    INFO(first << " before " << second);
    CHECK(apart([&, a = first, b = second](Findings& findings) { body(a, b, findings); }));
  }
}

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("plugins: loading one starts no thread") {
  CHECK(apart([](Findings& findings) {
    const auto before = threads();
    Library library(PLUGIN_A);
    findings.expect(library->available(), "hooks are available");
    findings.expect(threads() == before, "there are as many threads as before");
  }));
}

TEST_CASE("plugins: two of them share one engine and one stack of hooks") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    findings.expect(a->available() && b->available(), "both see the engine");
    findings.expect(a->engine() == b->engine(), "both see the same engine");
    auto* scope = a->open();
    findings.expect(b->train(), "the second trains right under the first one's hooks");
    findings.expect(a->close(scope) == 2, "the first one's hooks saw the second's tensors");
    scope = b->open();
    findings.expect(a->train(), "the first trains right under the second one's hooks");
    findings.expect(b->close(scope) == 2, "the second one's hooks saw the first's tensors");
  });
}

TEST_CASE("plugins: two of them share one registration for linear layers") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* outer = a->see_linear();
    findings.expect(b->linear(true), "the first one's hook answers the second");
    auto* inner = b->see_linear();
    findings.expect(a->linear(true), "the second one's hook answers the first");
    findings.expect(b->unsee_linear(inner) == 1, "the inner hook was asked once");
    findings.expect(a->unsee_linear(outer) == 1, "the outer one as well");
    findings.expect(a->linear(false) && b->linear(false), "then nobody answers");
  });
}

TEST_CASE("plugins: scopes of two plugins nest, and the innermost wins") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* outer = a->open();
    auto* inner = b->open();
    findings.expect(a->train(), "trains right");
    findings.expect(b->close(inner) == 2, "the inner one's hooks answered");
    findings.expect(b->train(), "trains right again");
    findings.expect(a->close(outer) == 2, "then the outer one's");
  });
}

TEST_CASE("plugins: operators of one are seen by the other, through one fallback") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* outer = a->watch();
    findings.expect(b->train(), "the second trains right while the first watches");
    auto* inner = b->watch();
    findings.expect(a->train(), "the first trains right while both watch");
    findings.expect(b->seen(inner) == 3, "the inner one saw a product and its two gradients");
    findings.expect(a->seen(outer) == 6, "the outer one saw them, and those before");
    findings.expect(b->train(), "it trains right when nobody watches");
    dlclose(a.handle);
    inner = b->watch();
    findings.expect(b->train() && b->seen(inner) == 3, "the second sees after the first closed");
  });
}

TEST_CASE("plugins: an operator of ours is registered once for all, and outlives who did it") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* outer = b->watch();
    findings.expect(a->attend(), "the first attends right while the second watches");
    findings.expect(b->attend(), "so does the second");
    findings.expect(b->seen(outer) == 2, "both are one operator each");
    dlclose(a.handle);
    outer = b->watch();
    findings.expect(b->attend() && b->seen(outer) == 1, "and still when the first was closed");
    findings.expect(b->attend(), "it attends right when nobody watches");
  });
}

TEST_CASE("plugins: hooks of one plugin stay on their thread in the other") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* scope = a->open();
    bool right = false;
    int packed = -1;
    std::thread([&] {
      auto* own = b->open();
      right = a->train() && b->train();
      packed = b->close(own);
    }).join();
    findings.expect(right, "trains right on another thread");
    findings.expect(packed == 4, "the other thread's scope saw its own");
    findings.expect(a->close(scope) == 0, "and this thread's saw none of it");
  });
}

TEST_CASE("plugins: the first may be closed before the second is opened, or while it is used") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first);
    findings.expect(a->train() && a->bytes() == 0, "the first works");
    auto* tensor = a->take(1000);
    dlclose(a.handle);
    Library b(second);
    auto* scope = b->open();
    findings.expect(b->train(), "the second trains after the first was closed");
    findings.expect(b->close(scope) == 2, "its hooks fire");
    findings.expect(b->bytes() == 1000, "it sees the bytes taken through the first");
    b->restore_dtype(tensor);
    findings.expect(b->bytes() == 0, "and can give them back");
    Library again(first);
    findings.expect(again->available() && again->train(), "the first can be opened again");
    dlclose(b.handle);
    findings.expect(again->available() && again->train(), "and works when the second closes");
  });
}

TEST_CASE("plugins: gradient hooks of two plugins share a tensor, also when the first is closed") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library b(second), a(first);
    int of_a = 0, of_b = 0;
    auto* leaf = b->leaf();
    auto* hook_a = a->hook(leaf, of_a);
    auto* hook_b = b->hook(leaf, of_b);
    b->backward(leaf);
    findings.expect(of_a == 1 && of_b == 1, "both are called");
    a->unhook(hook_a);
    dlclose(a.handle);
    b->backward(leaf);
    findings.expect(of_a == 1 && of_b == 2, "then only the second's");
    b->unhook(hook_b);
    b->backward(leaf);
    findings.expect(of_b == 2, "then none");
    b->restore_dtype(leaf);
  });
}

TEST_CASE("plugins: one allocator counts for both, and only from then on") {
  for_each_pair([](const auto& first, const auto& second, Findings& findings) {
    Library a(first), b(second);
    auto* early = b->take(50);
    findings.expect(!a->counted(early), "nothing is counted before the first counter");
    findings.expect(a->bytes() == 0, "counting begins at none");
    auto* late = b->take(70);
    findings.expect(a->bytes() == 70 && b->bytes() == 70, "both count the same, once");
    findings.expect(a->counted(late) && b->counted(late), "both know what was counted");
    findings.expect(!a->counted(early) && !b->counted(early), "and what was not");
    a->restore_dtype(early);
    findings.expect(a->bytes() == 70, "what was not counted is not subtracted");
    a->restore_dtype(late);
    findings.expect(b->bytes() == 0, "the first can free what the second took");
  });
}
