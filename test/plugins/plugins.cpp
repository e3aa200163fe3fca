// Opens the plugins as an application would, with RTLD_LOCAL.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "library.hpp"

using namespace test::plugins;

namespace {

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("plugins: loading one starts no thread") {
  CHECK(in_own_process([](Expectations& expectations) {
    const auto before = threads();
    Library library(PLUGIN_A);
    expectations.expect(library->available(), "hooks are available");
    expectations.expect(threads() == before, "there are as many threads as before");
  }));
}

TEST_CASE("plugins: two of them share one engine and one stack of hooks") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    expectations.expect(a->available() && b->available(), "both see the engine");
    expectations.expect(a->engine() == b->engine(), "both see the same engine");
    auto* scope = a->open_saved();
    expectations.expect(b->train(), "the second trains right under the first one's hooks");
    expectations.expect(a->close_saved(scope) == 2,
                        "the first one's hooks saw the second's tensors");
    scope = b->open_saved();
    expectations.expect(a->train(), "the first trains right under the second one's hooks");
    expectations.expect(b->close_saved(scope) == 2,
                        "the second one's hooks saw the first's tensors");
  });
}

TEST_CASE("plugins: two of them share one registration for linear layers") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* outer = a->open_linear_scope();
    expectations.expect(b->linear(true), "the first one's hook applies to the second");
    auto* inner = b->open_linear_scope();
    expectations.expect(a->linear(true), "the second one's hook applies to the first");
    expectations.expect(b->close_linear_scope(inner) == 1, "the inner hook was called once");
    expectations.expect(a->close_linear_scope(outer) == 1, "the outer one as well");
    expectations.expect(a->linear(false) && b->linear(false), "then no hook is called");
  });
}

TEST_CASE("plugins: scopes of two plugins nest, and the innermost applies") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* outer = a->open_saved();
    auto* inner = b->open_saved();
    expectations.expect(a->train(), "trains right");
    expectations.expect(b->close_saved(inner) == 2, "the inner one's hooks were called");
    expectations.expect(b->train(), "trains right again");
    expectations.expect(a->close_saved(outer) == 2, "then the outer one's");
  });
}

TEST_CASE("plugins: operators of one are intercepted by the other, through one fallback") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* outer = a->open_operators();
    expectations.expect(b->train(), "the second trains right in a scope of the first");
    auto* inner = b->open_operators();
    expectations.expect(a->train(), "the first trains right in scopes of both");
    expectations.expect(b->close_operators(inner) == 3,
                        "the inner one saw a product and its two gradients");
    expectations.expect(a->close_operators(outer) == 6, "the outer one saw them, and those before");
    expectations.expect(b->train(), "it trains right without a scope");
    auto* random = a->open_random();
    b->drop();
    expectations.expect(a->close_random(random) == 1, "one operator that draws was seen");
    dlclose(a.handle);
    random = b->open_random(), b->drop();
    expectations.expect(b->close_random(random) == 1, "and when the first was closed");
    inner = b->open_operators();
    expectations.expect(b->train() && b->close_operators(inner) == 3,
                        "the second intercepts operators after the first was closed");
  });
}

TEST_CASE(
    "plugins: a custom operator is registered once for all, and stays when its library is closed") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* outer = b->open_operators();
    expectations.expect(a->attend(), "the first attends right in a scope of the second");
    expectations.expect(b->attend(), "so does the second");
    expectations.expect(b->close_operators(outer) == 2, "both are one operator each");
    dlclose(a.handle);
    outer = b->open_operators();
    expectations.expect(b->attend() && b->close_operators(outer) == 1,
                        "and still when the first was closed");
    expectations.expect(b->attend(), "it attends right without a scope");
  });
}

TEST_CASE("plugins: hooks of one plugin apply to their own thread only, in the other too") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* scope = a->open_saved();
    bool right = false;
    int packed = -1;
    std::thread([&] {
      auto* thread_scope = b->open_saved();
      right = a->train() && b->train();
      packed = b->close_saved(thread_scope);
    }).join();
    expectations.expect(right, "trains right on another thread");
    expectations.expect(packed == 4, "the other thread's scope saw its own");
    expectations.expect(a->close_saved(scope) == 0, "and this thread's saw none of it");
  });
}

TEST_CASE("plugins: the first may be closed before the second is opened, or while it is used") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first);
    expectations.expect(a->train() && a->bytes() == 0, "the first works");
    auto* tensor = a->allocate(1000);
    dlclose(a.handle);
    Library b(second);
    auto* scope = b->open_saved();
    expectations.expect(b->train(), "the second trains after the first was closed");
    expectations.expect(b->close_saved(scope) == 2, "its hooks fire");
    expectations.expect(b->bytes() == 1000, "it counts the bytes allocated through the first");
    b->free_tensor(tensor);
    expectations.expect(b->bytes() == 0, "and can free them");
    Library again(first);
    expectations.expect(again->available() && again->train(), "the first can be opened again");
    dlclose(b.handle);
    expectations.expect(again->available() && again->train(), "and works when the second closes");
  });
}

TEST_CASE("plugins: gradient hooks of two plugins share a tensor, also when the first is closed") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library b(second), a(first);
    int of_a = 0, of_b = 0;
    auto* leaf = b->leaf();
    auto* hook_a = a->hook(leaf, of_a);
    auto* hook_b = b->hook(leaf, of_b);
    b->backward(leaf);
    expectations.expect(of_a == 1 && of_b == 1, "both are called");
    a->unhook(hook_a);
    dlclose(a.handle);
    b->backward(leaf);
    expectations.expect(of_a == 1 && of_b == 2, "then only the second's");
    b->unhook(hook_b);
    b->backward(leaf);
    expectations.expect(of_b == 2, "then none");
    b->free_tensor(leaf);
  });
}

TEST_CASE("plugins: one allocator counts for both, and only from then on") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* early = b->allocate(50);
    expectations.expect(!a->counted(early), "nothing is counted before the first counter");
    expectations.expect(a->bytes() == 0, "counting begins at none");
    auto* late = b->allocate(70);
    expectations.expect(a->bytes() == 70 && b->bytes() == 70, "both count the same, once");
    expectations.expect(a->counted(late) && b->counted(late), "both recognise what was counted");
    expectations.expect(!a->counted(early) && !b->counted(early), "and what was not");
    a->free_tensor(early);
    expectations.expect(a->bytes() == 70, "what was not counted is not subtracted");
    a->free_tensor(late);
    expectations.expect(b->bytes() == 0, "the first can free what the second allocated");
  });
}
