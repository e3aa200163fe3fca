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
/// Returns the peaks of both gradients, and of the weight's alone.
std::array<double, 2> peaks(const Sizes& weight, std::int64_t stride) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::empty({8, 32, 32, 32}), w = at::empty(weight);
  const Sizes by(2, stride), padding(2, 1), one(2, 1), none(2);
  const at::Tensor g = at::empty({8, weight[0], 32 / stride, 32 / stride});
  auto backward = [&](bool of_input) {
    return at::convolution_backward(g, x, w, std::nullopt, by, padding, one, false, none, 1,
                                    {of_input, true, false});
  };
  return {peak_of([&] { return backward(true); }), peak_of([&] { return backward(false); })};
}

TEST_CASE("convolutions: an estimate knows what the kernels of their gradients need") {
  const ikebana::bridge::MemoryCounter first(at::kCPU);
  for (const std::int64_t stride : {1, 2}) {
    const Sizes weight = {32 * stride, 32, 3, 3};
    const auto real = peaks(weight, stride);
    const ikebana::bridge::FakeLedgerScope scope(std::make_shared<ikebana::bridge::FakeLedger>());
    const auto estimated = peaks(weight, stride);
    for (const std::size_t i : {0U, 1U})
      CHECK(estimated[i] == doctest::Approx(real[i]).epsilon(0.05));
  }
}

}  // namespace test::convolution_memory
