// Tests stochastic rounding of FP32 to BF16. It is unbiased, to one of the two neighbours, and the
// same on any device.
#include "test.hpp"

#include "bf16_numbers.hpp"

namespace guarantees::rounding {

using bf16::cut, bf16::unit;
using ikebana::detail::RoundingKey;

at::Tensor rounded(const at::Tensor& exact, std::int64_t round, std::size_t tensor = 0,
                   std::int64_t first = 0) {
  at::Tensor to = at::empty(exact.sizes(), at::kBFloat16);
  ikebana::detail::round_on_cpu(to, exact, RoundingKey::of(7, round, tensor), first);
  return to;
}
at::Tensor by_operators(const at::Tensor& exact, std::int64_t round, std::size_t tensor = 0,
                        std::int64_t first = 0) {
  auto key = RoundingKey::of(7, round, tensor);
  auto numbers = at::tensor(
      {static_cast<std::int32_t>(key.first), static_cast<std::int32_t>(key.second)}, at::kInt);
  at::Tensor to = at::empty(exact.sizes(), at::kBFloat16);
  auto scratch = [&] { return at::empty(exact.sizes(), at::kInt); };
  ikebana::detail::RoundByOperators(scratch(), scratch())(to, exact, numbers, key.tensor, first);
  return to;
}
/// Returns every BF16 value, including infinities and NaN.
at::Tensor all_of_bf16() {
  return at::arange(-32768, 32768, at::kInt).to(at::kShort).view(at::kBFloat16);
}
/// Returns numbers of all magnitudes, few of which are BF16 values.
at::Tensor numbers(std::int64_t n) {
  torch::manual_seed(1);
  return torch::randn({n}) * torch::exp2(torch::randint(-40, 40, {n}).to(at::kFloat));
}
TEST_CASE("stochastic rounding is unbiased") {
  at::Tensor exact = numbers(2000).to(at::kDouble), sum = at::zeros({2000}, at::kDouble);
  const int draws = 4096;
  for (int round = 0; round < draws; ++round) sum += rounded(exact.to(at::kFloat), round);
  at::Tensor error = (sum / draws - exact) / unit(exact.to(at::kFloat));
  // A draw is off by at most 1/2 unit in root mean square; 2000 means of 4096 draws.
  CHECK(error.abs().max().item<double>() < 5 * 0.5 / std::sqrt(draws));
  CHECK(std::abs(error.mean().item<double>()) < 5 * 0.5 / std::sqrt(draws * 2000.0));
}

TEST_CASE("draws of different steps, tensors and positions are independent") {
  at::Tensor half = at::full({4096}, 1.0 + std::pow(2.0, -8));  // halfway between two BF16 values
  auto up = [&](int round, std::size_t tensor, std::int64_t shift) {
    at::Tensor x = rounded(half, round, tensor).to(at::kFloat).gt(1).to(at::kDouble) - 0.5;
    return x.roll(shift) * 2;
  };
  at::Tensor base = up(0, 0, 0);
  for (auto [round, tensor, shift] :
       {std::tuple{1, 0, 0}, {0, 1, 0}, {2, 3, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 64}, {1, 0, 1}})
    CHECK(std::abs((base * up(round, std::size_t(tensor), shift)).mean().item<double>()) <
          5 / std::sqrt(4096.0));
}

TEST_CASE("stochastic rounding of a slice is that of the whole tensor") {
  const at::Tensor exact = numbers(5000), whole = rounded(exact, 3, 1);
  for (std::int64_t first : {0, 1, 64, 1001, 4999}) {
    CAPTURE(first);
    const at::Tensor slice = exact.narrow(0, first, 5000 - first).clone();
    CHECK(rounded(slice, 3, 1, first).equal(whole.narrow(0, first, 5000 - first)));
    CHECK(by_operators(slice, 3, 1, first).equal(whole.narrow(0, first, 5000 - first)));
  }
  // Beyond the largest index of 32 bits, as in an embedding of 2^17 rows and 2^15 columns.
  const std::int64_t large = (std::int64_t{1} << 32) - 7;
  CHECK(rounded(exact, 3, 1, large).equal(by_operators(exact, 3, 1, large)));
}

TEST_CASE("stochastic rounding changes no BF16 value, no infinity and no NaN") {
  at::Tensor held = all_of_bf16(), nan = held.isnan();
  for (int round = 0; round < 20; ++round)
    for (const auto& now :
         {rounded(held.to(at::kFloat), round), by_operators(held.to(at::kFloat), round)}) {
      CHECK(now.isnan().equal(nan));
      CHECK(test::same_bits(now.masked_select(~nan), held.masked_select(~nan)));
    }
}

TEST_CASE("stochastic rounding gives one of the two neighbours, the same on any device") {
  at::Tensor exact = numbers(100000);
  bool ups = false, downs = false;
  for (int round = 0; round < 5; ++round) {
    at::Tensor now = rounded(exact, round, 3), below = cut(exact).to(at::kBFloat16);
    at::Tensor steps = now.view(at::kShort) - below.view(at::kShort);
    CHECK(steps.ge(0).logical_and(steps.le(1)).all().item<bool>());
    ups = ups || steps.any().item<bool>(), downs = downs || !steps.all().item<bool>();
    CHECK(test::same_bits(by_operators(exact, round, 3), now));
  }
  CHECK((ups && downs));
}

}  // namespace guarantees::rounding
