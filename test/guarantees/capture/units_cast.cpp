// Under autocast a captured unit keeps every bit, wherever its weights are cast.
#include <ATen/autocast_mode.h>

#include "units.hpp"

namespace guarantees::units_cast {

using namespace units;

/// Uses one weight in an order that the test supplies: 'c' by its cast, 'n' by its cast without a
/// gradient, 'u' by its cast for what nobody needs, 'd' as it is.
struct UsingImpl : torch::nn::Module {
  torch::nn::Linear linear;
  std::string uses;
  UsingImpl(torch::nn::Linear shared, std::string order) : linear(shared), uses(std::move(order)) {
    register_module("linear", linear);
  }
  at::Tensor forward(at::Tensor x) {
    for (const char use : uses) {
      if (use == 'd') {
        x = at::tanh(x * linear->weight[1]);
      } else if (use == 'c') {
        x = at::tanh(at::linear(x, linear->weight));
      } else {
        torch::NoGradGuard no_grad;
        const at::Tensor factor = at::linear(x.detach(), linear->weight);
        at::AutoGradMode with_grad(true);
        x = at::tanh(use == 'n' ? x * factor : x);
      }
    }
    return x;
  }
};
TORCH_MODULE(Using);
struct UsingNetImpl : torch::nn::Module {
  using units = Units<Using>;
  static inline std::string first_uses, second_uses;
  torch::nn::Linear in{body_width, body_width},
      shared{torch::nn::LinearOptions(body_width, body_width).bias(false)};
  Using first{shared, first_uses}, second{shared, second_uses};
  UsingNetImpl() {
    register_module("in", in), register_module("first", first), register_module("second", second);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = in(batch.input);
    if (batch.target[0].template item<int>() == 0) x = run(first, x);
    x = run(first, run(second, x));
    return {x.square().sum(), batch.input.size(0), x};
  }
};
TORCH_MODULE(UsingNet);

/// Returns false for LibTorch 2.8, where a cast has no gradient if it is first used where gradients
/// are disabled: what a step computes then depends on the order in which units run.
bool casts_have_gradients() {
  const at::Tensor weight = at::ones({1, 1}).requires_grad_(true);
  const bridge::AutocastScope autocast(at::kCPU, at::kBFloat16);
  const bridge::AutocastNesting nesting;
  {
    torch::NoGradGuard no_grad;
    at::linear(at::ones({1, 1}), weight);
  }
  return at::linear(at::ones({1, 1}), weight).requires_grad();
}

/// Returns all words of this length.
std::vector<std::string> words(int length, const std::string& letters) {
  std::vector<std::string> all{""};
  for (; length > 0; --length) {
    std::vector<std::string> longer;
    for (const std::string& word : all)
      for (const char letter : letters) longer.push_back(word + letter);
    all = std::move(longer);
  }
  return all;
}

// In some steps the first unit runs only after the second, which may have cast the weight.
// Gradients are added up in the order of the uses, and three are rounded by it. Momentum has their
// bits, which a weight may lose.
TEST_CASE("captured units: a weight that is used by its cast and as it is, in any order") {
  const bool all = casts_have_gradients();
  for (const std::string& first : words(2, all ? "cud" : "cd"))
    for (const std::string& second : words(3, all ? "cnd" : "cd")) {
      CAPTURE(first);
      CAPTURE(second);
      UsingNetImpl::first_uses = first, UsingNetImpl::second_uses = second;
      auto both = compared<UsingNet>(SGD{.lr = 0.1, .momentum = 0.9}, Precision<BF16>{});
      for (int i = 0; i < 9; ++i) {
        Rows batch = body_batch(i);
        batch.target[0] = i < 3 || i % 2 == 0 ? 1 : 0;
        if (!both.step(i, batch, nothing)) return;
      }
      CHECK(both.error == "");
      CHECK(both.replays() >= 5);
      CHECK(both.capture().usual_calls() == 0);
    }
}

/// The length of the batch decides which weight is cast.
struct ByLengthImpl : torch::nn::Module {
  torch::nn::Linear long_one{body_width, body_width}, short_one{body_width, body_width};
  ByLengthImpl() { register_module("long_one", long_one), register_module("short_one", short_one); }
  at::Tensor forward(const at::Tensor& x) {
    const torch::nn::Linear& used = x.size(0) > 3 ? long_one : short_one;
    const at::Tensor y = at::tanh(x * used->weight[1]) * used->weight[2];
    return at::tanh(at::linear(y, used->weight, used->bias)) * used->bias;
  }
};
TORCH_MODULE(ByLength);
struct ByLengthNetImpl : torch::nn::Module {
  using units = Units<ByLength>;
  torch::nn::Linear in{body_width, body_width};
  ByLength body;
  ByLengthNetImpl() { register_module("in", in), register_module("body", body); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = in(batch.input), y = run(body, x);
    const at::Tensor z = at::linear(y, body->long_one->weight, body->short_one->bias);
    return {z.square().sum(), batch.input.size(0), z};
  }
};
TORCH_MODULE(ByLengthNet);

TEST_CASE("captured units: each form of a unit casts weights of its own") {
  auto check = [](auto... policies) {
    auto both = compared<ByLengthNet>(SGD{.lr = 0.1, .momentum = 0.9}, policies...);
    auto change = [](auto& trainer, int i) {
      at::Tensor weight = trainer.model()->body->long_one->weight;
      weight.requires_grad_(i < 12 || i >= 16);
      if (i == 19) weight.set_data(weight.detach() * 0.5);
      if (i == 21) trainer.evaluate(std::vector<Rows>{body_batch(i)});
    };
    for (int i = 0; i < 48; ++i)
      if (!both.step(i, body_batch(i, i % 4 == 3 ? 2 : 6), change)) return;
    CHECK(both.error == "");
    CHECK(both.replays() >= 12);
  };
  check(Precision<BF16>{});
  check(Precision<BF16>{}, Accumulate<2>{});
  check(Precision<BF16>{}, Checkpoint<Full>{});
  check(Precision<BF16>{}, Checkpoint<Selective>{});
  check(Precision<FP16>{});
}

TEST_CASE("captured units: a recorded call in which another thread clears autocast's cache") {
  auto body = [](BodyImpl& self, const at::Tensor& x) {
    const at::Tensor y = at::tanh(at::linear(x, self.linear->weight));
    if (UsedImpl::step_now == 3 || UsedImpl::step_now == 5) at::autocast::clear_cache();
    return at::linear(y, self.linear->weight, self.linear->bias);
  };
  const Figures figures = used(body, once, {}, Precision<BF16>{});
  CHECK(figures.error == "");
  CHECK(figures.recordings == 5);  // the first one shows the casts, and two are of no use
  CHECK(figures.replays == 12 - 2 - 5);
}

}  // namespace guarantees::units_cast
