// Tests pools of several plugins, of which one has put the allocator with pools in place.
#include "library.hpp"

using namespace test::plugins;

TEST_CASE(
    "plugins: a scope of one plugin serves both, and what is allocated is counted as before") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* outer = b->open_pool();  // before there is a counting allocator
    auto* inner = a->open_pool();
    auto* early = b->allocate(1000);
    expectations.expect(b->bytes() == 0, "counting begins at none");
    auto* late = b->allocate(70);
    expectations.expect(a->bytes() == 70 && b->bytes() == 70, "both count the same, once");
    b->free_tensor(early), b->free_tensor(late);
    expectations.expect(a->close_pool(inner) == 2, "the innermost scope's pool served both");
    expectations.expect(b->bytes() == 0, "and all are freed");
    expectations.expect(b->close_pool(outer) == 0, "the outer scope's pool served none");
  });
}

TEST_CASE("plugins: a pool of one goes below the counting allocator of another") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    expectations.expect(a->bytes() == 0, "counting begins at none");
    auto* scope = b->open_pool();
    auto* tensor = a->allocate(1000);
    expectations.expect(b->bytes() == 1000, "what the pool serves is counted");
    expectations.expect(b->close_pool(scope) == 1, "the pool served it");
    b->free_tensor(tensor);
    expectations.expect(a->bytes() == 0, "and it is freed");
  });
}

TEST_CASE(
    "plugins: a pool's block outlives the library that made the pool, as far as programs see") {
  for_each_pair([](const auto& first, const auto& second, Expectations& expectations) {
    Library a(first), b(second);
    auto* scope = a->open_pool();
    auto* tensor = a->allocate(5000);
    expectations.expect(a->close_pool(scope) == 1, "it is of the pool");
    dlclose(a.handle);
    b->free_tensor(tensor);
    scope = b->open_pool();
    expectations.expect(b->train(), "the second trains in a pool of its own");
    expectations.expect(b->close_pool(scope) > 2, "from which its tensors come");
  });
}
