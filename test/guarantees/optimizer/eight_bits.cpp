// Tests AdamW with 8-bit moments: the code table, the rounding, the memory.

#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>

#include "alone.hpp"

namespace guarantees::eight_bits {

using ikebana::detail::dynamic_map;
using ikebana::detail::DynamicMap;

/// Computes the paper's code table independently.
std::vector<double> by_hand(bool is_signed) {
  std::vector<double> all = {0, 1};
  for (int e = 0; e < 7; ++e) {
    auto edges = at::linspace(0.1, 1, (is_signed ? 1 << e : 2 << e) + 1, at::kDouble);
    for (std::int64_t i = 0; i + 1 < edges.numel(); ++i) {
      double mean = (edges[i].item<double>() + edges[i + 1].item<double>()) / 2;
      all.push_back(mean * std::pow(10.0, e - 6));
      if (is_signed) all.push_back(-all.back());
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST_CASE("a value gets the code of the nearest of the paper's 256 numbers") {
  for (bool is_signed : {true, false}) {
    auto numbers = by_hand(is_signed);
    REQUIRE(numbers.size() == DynamicMap::size);
    const DynamicMap& map = dynamic_map(is_signed);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK(map[static_cast<std::uint8_t>(i)] == static_cast<float>(numbers[i]));
      CHECK(map.code(static_cast<float>(numbers[i])) == i);
    }
    CHECK(map[map.zero()] == 0);
    torch::manual_seed(1);
    at::Tensor x = at::pow(10, at::rand({20000}) * 9 - 9);
    if (is_signed) x = x * at::randn({20000}).sign();
    for (float value : std::span(x.data_ptr<float>(), 20000)) {
      std::size_t code = map.code(value);
      double apart = std::abs(numbers[code] - value);
      if (code > 0) CHECK(apart <= std::abs(numbers[code - 1] - value) * (1 + 1e-6));
      if (code < 255) CHECK(apart <= std::abs(numbers[code + 1] - value) * (1 + 1e-6));
    }
  }
}

/// Returns the moments that the 8-bit state holds, in double precision.
at::Tensor read(const StateDict& state, const std::string& slot, std::int64_t block) {
  bool is_signed = slot == "exp_avg";
  auto numbers = by_hand(is_signed);
  const at::Tensor codes =
      state.at("ikebana.optimizer.linear_weight." + slot).flatten().to(at::kLong);
  at::Tensor largest =
      state.at("ikebana.optimizer.linear_weight." + slot + "_largest").to(at::kDouble);
  at::Tensor scale = largest.flatten().repeat_interleave(block).narrow(0, 0, codes.numel());
  return at::tensor(numbers, at::kDouble).index_select(0, codes) * scale;
}

/// From the state before a step and its gradient: the parameter after it and the unrounded moments.
struct Step {
  at::Tensor p, first, second;
};
Step by_paper(const AdamW8bit& v, const StateDict& before, const at::Tensor& g, int t) {
  at::Tensor m = read(before, "exp_avg", v.block_size),
             s = read(before, "exp_avg_sq", v.block_size);
  m = v.betas[0] * m + (1 - v.betas[0]) * g, s = v.betas[1] * s + (1 - v.betas[1]) * g * g;
  at::Tensor p = before.at("linear_weight").flatten().to(at::kDouble);
  at::Tensor first = m / (1 - std::pow(v.betas[0], t)), second = s / (1 - std::pow(v.betas[1], t));
  return {p * (1 - v.lr * v.weight_decay) - v.lr * first / (second.sqrt() + v.eps), m, s};
}

/// Each code is that of the nearest number: a decoded value is at most half a gap away.
void check_rounding(const at::Tensor& exact, const StateDict& after, const std::string& slot,
                    std::int64_t block) {
  auto numbers = by_hand(slot == "exp_avg");
  at::Tensor held = read(after, slot, block);
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    std::int64_t begin = i / block * block, n = std::min(block, exact.numel() - begin);
    double largest = exact.narrow(0, begin, n).abs().max().item<double>();
    double x = exact[i].item<double>() / largest, got = held[i].item<double>() / largest;
    double nearest = 2;
    for (double number : numbers) nearest = std::min(nearest, std::abs(number - x));
    bool kept_from_zero = slot == "exp_avg_sq" && x > 0 && x < numbers[1] / 2;
    CHECK(std::abs(got - x) <= (kept_from_zero ? numbers[1] : nearest * (1 + 1e-4) + 1e-6));
    if (slot == "exp_avg_sq" && x > 0) CHECK(got > 0);
  }
}

TEST_CASE("a step equals the paper's in double precision, and its moments are rounded to nearest") {
  for (bool on_device : {false, true})
    for (bool maximize : {false, true}) {
      CAPTURE(on_device);
      AdamW8bit v{.lr = 0.05,
                  .weight_decay = 0.1,
                  .maximize = maximize,
                  .block_size = 16,
                  .min_8bit_size = 8};
      Alone<AdamW8bit> alone(v);
      if (on_device) alone.as_elsewhere();
      alone.run(0, 1);
      for (int s = 1; s < 12; ++s) {
        auto before = alone.state();
        auto gradients = alone.gradients(s);
        gradients[1].select(1, s % 4).mul_(s % 3 == 0 ? 0 : 1e-6);  // some very small ones
        alone.step(gradients);
        auto after = alone.state();
        at::Tensor g = gradients[1].flatten().to(at::kDouble) * (maximize ? -1 : 1);
        Step paper = by_paper(v, before, g, s + 1);
        CHECK(test::worst_relative({after["linear_weight"].flatten()}, {paper.p}) < 2e-6);
        check_rounding(paper.first, after, "exp_avg", 16);
        check_rounding(paper.second, after, "exp_avg_sq", 16);
      }
    }
}

TEST_CASE("a small value beside a large one is not divided by a second moment rounded to 0") {
  for (bool on_device : {false, true}) {
    AdamW8bit policy = lively<AdamW8bit>();
    policy.lr = 1e-3, policy.weight_decay = 0;
    Alone<AdamW8bit> alone(policy);
    if (on_device) alone.as_elsewhere();
    Tensors gradients;
    for (const auto& p : alone.masters.values) gradients.push_back(at::full_like(p, 1e-4));
    auto flat = [](at::Tensor& g) { return g.as_strided({g.numel()}, {1}); };  // in memory order
    for (auto& g : gradients) flat(g)[0] = 1;
    alone.step(gradients);
    std::vector<at::Tensor> before;
    for (const auto& p : alone.masters.values) before.push_back(p.detach().clone());
    for (auto& g : gradients) flat(g).narrow(0, 1, g.numel() - 1).zero_();
    alone.step(gradients);
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK((alone.masters.values[i] - before[i]).abs().max().item<double>() < 10 * policy.lr);
  }
}

TEST_CASE("small parameters have AdamW's own moments") {
  Alone<AdamW> plain(AdamW{.lr = 0.05, .weight_decay = 0.1});
  Alone<AdamW8bit> eight(AdamW8bit{.lr = 0.05, .weight_decay = 0.1});
  plain.run(0, 20, in_turn), eight.run(0, 20, in_turn);
  CHECK(test::worst_relative(eight.masters.values, plain.masters.values) < 1e-6);
}

TEST_CASE("two moments take 2 bytes per parameter and 8 per block") {
  struct WideImpl : torch::nn::Module {
    torch::nn::Linear linear = register_module(
        "linear", torch::nn::Linear(torch::nn::LinearOptions(512, 300).bias(false)));
    at::Tensor forward(const at::Tensor& x) { return linear(x); }
  };
  bridge::MemoryCounter counter(at::kCPU);
  auto bytes = [&](auto policy) {
    Trainer trainer{std::make_shared<WideImpl>(), MSELoss{}, policy};
    std::pair batch{at::ones({2, 512}), at::ones({2, 300})};
    auto before = counter.now();
    trainer.step(batch);
    return static_cast<double>(counter.now() - before) / (512 * 300);
  };
  CHECK(bytes(AdamW{}) == doctest::Approx(8).epsilon(2e-3));
  CHECK(bytes(AdamW8bit{}) == doctest::Approx(2 + 8.0 / 256).epsilon(2e-3));
  CHECK(bytes(AdamW8bit{.block_size = 64}) == doctest::Approx(2 + 8.0 / 64).epsilon(2e-3));
  CHECK(bytes(Lion{}) == doctest::Approx(4).epsilon(2e-3));
  CHECK(bytes(Adagrad{}) == doctest::Approx(4).epsilon(2e-3));
  CHECK(bytes(SGD{.momentum = 0.9}) == doctest::Approx(4).epsilon(2e-3));
  CHECK(bytes(Muon{}) == doctest::Approx(4).epsilon(2e-3));
  CHECK(bytes(Adafactor{}) == doctest::Approx(4.0 * (512 + 300) / (512 * 300)).epsilon(2e-2));
}

TEST_CASE("a parameter's blocks follow its memory order, and threads change no bit") {
  auto run = [](int threads, std::int64_t size) {
    at::set_num_threads(threads);
    torch::manual_seed(2);
    at::Tensor p = at::randn({size}).requires_grad_();
    Masters masters{{"p"}, {p}};
    Mechanism<AdamW8bit> eight(AdamW8bit{.lr = 0.1});
    Mechanism<Lion> lion(Lion{.lr = 0.1});
    eight.begin(masters), lion.begin(masters);
    for (int s = 0; s < 3; ++s) {
      StepGradients first;
      first.indices = {0}, first.values = {at::randn({size})};
      eight.prepare(masters, first, [](double lr) { return lr; });
      eight.update(masters, first);
      StepGradients second;
      second.indices = {0}, second.values = {at::randn({size})};
      lion.prepare(masters, second, [](double lr) { return lr; });
      lion.update(masters, second);
    }
    return p.detach().clone();
  };
  int before = at::get_num_threads();
  for (std::int64_t size : {100000, 65536}) CHECK(test::same_bits(run(2, size), run(1, size)));
  at::set_num_threads(before);
}

}  // namespace guarantees::eight_bits
