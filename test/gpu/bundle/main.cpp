// Uses what a bundle holds, for bundle.py: Hana through the grammar, doctest, and CUDA's headers
// and library. The tests themselves would take minutes to compile.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <ikebana/checks/policies.hpp>
#include <type_traits>

#include "../cuda.hpp"

namespace {

TEST_CASE("bundle: Hana composes a recipe in any order") {
  using namespace ikebana;
  CHECK(std::is_same_v<compose_t<AdamW, ClipGradNorm>, compose_t<ClipGradNorm, AdamW>>);
  CHECK_FALSE(std::is_same_v<compose_t<AdamW>, compose_t<SGD>>);
}

TEST_CASE("bundle: CUDA's library counts the devices") { CHECK(gpu::cuda::devices() >= 0); }

}  // namespace
