// Tests how much memory convolutions and their gradients need at the most, kernels' own memory
// included.
#include "test.hpp"

#include <ikebana/bridge/memory.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/posix/processor.hpp>

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

  /// Returns the peaks of the forward, of both gradients, and of the weight's gradient.
  std::array<double, 3> peaks() const {
    const at::NoGradGuard no_grad;
    const at::Tensor x = at::empty(input), w = at::empty(weight);
    const Sizes by(2, stride), padding(2, dilation * (weight[2] / 2)), spread(2, dilation), none(2);
    auto forward = [&] {
      return at::convolution(x, w, {}, by, padding, spread, false, none, groups);
    };
    const at::Tensor g = at::empty_like(forward());
    auto backward = [&](bool of_input) {
      return at::convolution_backward(g, x, w, std::nullopt, by, padding, spread, false, none,
                                      groups, {of_input, true, false});
    };
    return {peak_of(forward), peak_of([&] { return backward(true); }),
            peak_of([&] { return backward(false); })};
  }
};

TEST_CASE("convolutions: an estimate knows what their kernels need, also of large weights") {
  const ikebana::bridge::MemoryCounter first(at::kCPU);
  std::vector<Convolution> all = {{{8, 32, 32, 32}, {32, 32, 3, 3}},
                                  {{8, 32, 32, 32}, {64, 32, 3, 3}, 2}};
  // The limits were measured with oneDNN's kernels for AVX2, not with those for AVX-512.
  if (ikebana::detail::has_avx512_kernels()) MESSAGE("not run: shapes measured with AVX2 alone");
  else
    all.insert(all.end(), {{{4, 512, 4, 4}, {512, 512, 3, 3}},
                           {{16, 512, 2, 2}, {512, 512, 3, 3}},
                           {{4, 256, 8, 8}, {512, 256, 3, 3}, 2},
                           {{4, 256, 8, 8}, {256, 256, 5, 5}},
                           {{16, 512, 4, 4}, {64, 512, 3, 3}, 1, 2},
                           {{16, 64, 32, 32}, {64, 16, 3, 3}, 1, 1, 4}});
  for (const Convolution& one : all) {
    CAPTURE(one.input);
    CAPTURE(one.weight);
    const auto real = one.peaks();
    const ikebana::bridge::FakeLedgerScope scope(std::make_shared<ikebana::bridge::FakeLedger>());
    const auto estimated = one.peaks();
    for (const std::size_t i : {0U, 1U, 2U}) {
      CAPTURE(i);
      CHECK(estimated[i] == doctest::Approx(real[i]).epsilon(0.05));
    }
  }
}

}  // namespace test::convolution_memory
