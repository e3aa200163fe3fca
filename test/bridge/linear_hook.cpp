// Linear layers seen above autograd: which calls a hook is asked for, and that nothing changes
// where it does not answer.
#include "test.hpp"

#include <ikebana/bridge/linear_hook.hpp>
#include <thread>

namespace test::linear_hook {

using namespace ikebana;

/// Answers twice the product for one weight, and counts what it is asked.
struct Doubling : bridge::LinearHookV1 {
  at::Tensor mine;
  int asked = 0;
  std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias) override {
    ++asked;
    if (!weight.is_same(mine)) return {};
    return at::linear(input, weight, bias) * 2;  // does not ask again
  }
};

using Calls = std::vector<std::function<at::Tensor(at::Tensor)>>;

/// Every way in which a layer of this weight is written.
Calls calls(torch::nn::Linear layer) {
  at::Tensor w = layer->weight, b = layer->bias;
  return {[=](at::Tensor x) { return at::linear(x, w, b); },
          [=](at::Tensor x) mutable { return layer(x); },
          [=](at::Tensor x) { return torch::nn::functional::linear(x, w, b); },
          [=](at::Tensor x) { return x.matmul(w.t()); }};
}
at::Tensor gradient_of(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y.sum()}, {x})[0];
}

TEST_CASE("linear hook: every way to write a linear layer is seen once") {
  torch::manual_seed(0);
  for (bool bias : {false, true})
    for (const at::DimVector& rows : {at::DimVector{2, 4}, at::DimVector{5, 2, 4}})
      for (bool grad : {false, true}) {
        at::AutoGradMode mode(grad);
        torch::nn::Linear layer(torch::nn::LinearOptions(4, 3).bias(bias));
        at::Tensor x = torch::randn(rows).requires_grad_(grad);
        for (const auto& call : calls(layer)) {
          auto hook = std::make_shared<Doubling>();
          at::Tensor plain = call(x), seen;
          {
            bridge::LinearScope scope(hook);
            CHECK(same_bits(call(x), plain));  // not its weight
            hook->mine = layer->weight;
            seen = call(x);
          }
          CHECK(hook->asked == 2);
          CHECK(same_bits(call(x), plain));
          CHECK(hook->asked == 2);
          CHECK_FALSE(same_bits(seen, plain));
          if (grad) CHECK(same_bits(gradient_of(seen, x), gradient_of(plain, x) * 2));
        }
      }
}

TEST_CASE("linear hook: other products are not asked for") {
  auto hook = std::make_shared<Doubling>();
  at::Tensor x = torch::randn({4, 4}), w = torch::randn({4, 4}), part = torch::randn({8, 4});
  bridge::LinearScope scope(hook);
  at::matmul(x, w);
  at::matmul(x, w.t().contiguous());
  at::matmul(x, part.narrow(0, 0, 4));
  at::addmm(x, x, w.t(), /*beta=*/2);
  at::addmm(x, x, w.t(), 1, /*alpha=*/0.5);
  at::mm(x, w.t());
  CHECK(hook->asked == 0);
}

TEST_CASE("linear hook: the innermost scope answers, on its own thread") {
  auto outer = std::make_shared<Doubling>(), inner = std::make_shared<Doubling>();
  at::Tensor x = torch::ones({2, 4}), w = torch::ones({3, 4});
  bridge::LinearScope one(outer);
  {
    bridge::LinearScope two(inner);
    at::linear(x, w);
    std::thread([&] { at::linear(x, w); }).join();
  }
  CHECK(inner->asked == 1);
  CHECK(outer->asked == 0);
  CHECK_THROWS([&] {
    bridge::LinearScope two(inner);
    throw std::runtime_error("out");
  }());
  at::linear(x, w);
  CHECK(outer->asked == 1);
}

}  // namespace test::linear_hook
