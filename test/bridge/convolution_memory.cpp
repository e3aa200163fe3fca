// Tests how much memory the gradients of convolutions need, kernels' own memory included.
#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/fake/fake_ledger.hpp>

namespace test::convolution_memory {

using Sizes = std::vector<std::int64_t>;

/// Returns the peak of a second call, beyond the bytes in use before it.
template <class F>
double peak_of(const F& f) {
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  f();
  const std::int64_t before = counter.now();
  counter.reset_peak();
  f();
  return static_cast<double>(counter.peak() - before);
}

struct Convolution {
  Sizes input, weight;
  std::int64_t stride = 1, dilation = 1, groups = 1;

  /// Returns the peaks of both gradients, and of the weight's alone.
  std::array<double, 2> peaks() const {
    const at::NoGradGuard no_grad;
    const at::Tensor x = at::empty(input), w = at::empty(weight);
    const Sizes by(2, stride), padding(2, dilation * (weight[2] / 2)), spread(2, dilation), none(2);
    const at::Tensor g =
        at::empty_like(at::convolution(x, w, {}, by, padding, spread, false, none, groups));
    auto backward = [&](bool of_input) {
      return at::convolution_backward(g, x, w, std::nullopt, by, padding, spread, false, none,
                                      groups, {of_input, true, false});
    };
    return {peak_of([&] { return backward(true); }), peak_of([&] { return backward(false); })};
  }
};

// oneDNN's kernels for AVX-512 differ from those for AVX2: test_bridge.avx2 tests the latter.
TEST_CASE("convolutions: an estimate knows what the kernels of their gradients need") {
  const ikebana::bridge::MemoryCounter first(at::kCPU);
  const std::vector<Convolution> all = {
      {{8, 32, 32, 32}, {32, 32, 3, 3}},        {{8, 32, 32, 32}, {64, 32, 3, 3}, 2},
      {{4, 512, 4, 4}, {512, 512, 3, 3}},       {{16, 512, 2, 2}, {512, 512, 3, 3}},
      {{4, 256, 8, 8}, {512, 256, 3, 3}, 2},    {{4, 256, 8, 8}, {256, 256, 5, 5}},
      {{16, 512, 4, 4}, {64, 512, 3, 3}, 1, 2}, {{16, 64, 32, 32}, {64, 16, 3, 3}, 1, 1, 4},
      {{16, 64, 32, 32}, {64, 64, 3, 3}, 1, 2}, {{16, 60, 32, 32}, {60, 15, 3, 3}, 1, 1, 4}};
  for (const Convolution& one : all) {
    CAPTURE(one.input);
    CAPTURE(one.weight);
    const auto real = one.peaks();
    const ikebana::bridge::FakeLedgerScope scope(std::make_shared<ikebana::bridge::FakeLedger>());
    const auto estimated = one.peaks();
    for (const std::size_t i : {0U, 1U}) {
      CAPTURE(i);
      CHECK(estimated[i] == doctest::Approx(real[i]).epsilon(0.05));
    }
  }
}

}  // namespace test::convolution_memory
