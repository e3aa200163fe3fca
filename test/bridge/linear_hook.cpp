// Linear layers intercepted above autograd: which calls reach a hook, and that nothing changes if
// it returns nullopt.
#include "test.hpp"

#include <ikebana/bridge/linear_hook.hpp>
#include <thread>

namespace test::linear_hook {

using namespace ikebana;

/// Returns twice the product for one weight, and counts its calls.
struct Doubling : bridge::LinearHookV1 {
  at::Tensor weight_to_double;
  int calls = 0;
  std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias) override {
    ++calls;
    if (!weight.is_same(weight_to_double)) return {};
    return at::linear(input, weight, bias) * 2;  // is not intercepted again
  }
};

using Calls = std::vector<std::function<at::Tensor(at::Tensor)>>;

/// Returns every way to write a layer of this weight.
Calls ways_to_call(torch::nn::Linear layer) {
  at::Tensor w = layer->weight, b = layer->bias;
  return {[=](at::Tensor x) { return at::linear(x, w, b); },
          [=](at::Tensor x) mutable { return layer(x); },
          [=](at::Tensor x) { return torch::nn::functional::linear(x, w, b); },
          [=](at::Tensor x) { return x.matmul(w.t()); }};
}
at::Tensor gradient_of(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y.sum()}, {x})[0];
}

TEST_CASE("linear hook: every way to write a linear layer is intercepted once") {
  torch::manual_seed(0);
  for (bool bias : {false, true})
    for (const at::DimVector& rows : {at::DimVector{2, 4}, at::DimVector{5, 2, 4}})
      for (bool grad : {false, true}) {
        at::AutoGradMode mode(grad);
        torch::nn::Linear layer(torch::nn::LinearOptions(4, 3).bias(bias));
        at::Tensor x = torch::randn(rows).requires_grad_(grad);
        for (const auto& call : ways_to_call(layer)) {
          auto hook = std::make_shared<Doubling>();
          at::Tensor plain = call(x), doubled;
          {
            bridge::LinearScope scope(hook);
            CHECK(same_bits(call(x), plain));  // another weight
            hook->weight_to_double = layer->weight;
            doubled = call(x);
          }
          CHECK(hook->calls == 2);
          CHECK(same_bits(call(x), plain));
          CHECK(hook->calls == 2);
          CHECK_FALSE(same_bits(doubled, plain));
          if (grad) CHECK(same_bits(gradient_of(doubled, x), gradient_of(plain, x) * 2));
        }
      }
}

TEST_CASE("linear hook: other products do not reach the hook") {
  auto hook = std::make_shared<Doubling>();
  at::Tensor x = torch::randn({4, 4}), w = torch::randn({4, 4}), part = torch::randn({8, 4});
  bridge::LinearScope scope(hook);
  at::matmul(x, w);
  at::matmul(x, w.t().contiguous());
  at::matmul(x, part.narrow(0, 0, 4));
  at::addmm(x, x, w.t(), /*beta=*/2);
  at::addmm(x, x, w.t(), 1, /*alpha=*/0.5);
  at::mm(x, w.t());
  CHECK(hook->calls == 0);
}

TEST_CASE("linear hook: only the innermost scope of the thread is called") {
  auto outer = std::make_shared<Doubling>(), inner = std::make_shared<Doubling>();
  at::Tensor x = torch::ones({2, 4}), w = torch::ones({3, 4});
  bridge::LinearScope one(outer);
  {
    bridge::LinearScope two(inner);
    at::linear(x, w);
    std::thread([&] { at::linear(x, w); }).join();
  }
  CHECK(inner->calls == 1);
  CHECK(outer->calls == 0);
  CHECK_THROWS([&] {
    bridge::LinearScope two(inner);
    throw std::runtime_error("inside the scope");
  }());
  at::linear(x, w);
  CHECK(outer->calls == 1);
}

}  // namespace test::linear_hook
