// Operators below autograd are intercepted by the innermost open scope; custom operators.
#include "test.hpp"

#include <ikebana/bridge/custom_operator.hpp>
#include <thread>

#include "counting.hpp"

using namespace ikebana;

namespace test::operators {

/// Replaces one operator by its first argument.
struct ReplaceByArgument : bridge::OperatorMode {
  std::string name;
  explicit ReplaceByArgument(std::string n) : name(std::move(n)) {}
  void call(bridge::OperatorCall& call) override {
    if (call.name().name == name) call.replace({call.arguments()[0]});
    else call.compute();
  }
};

at::Tensor leaf() { return at::full({3, 3}, 0.5).requires_grad_(); }

TEST_CASE("operators: operators of forward and backward below autograd are intercepted once each") {
  Counting counting;
  at::Tensor x = leaf();
  {
    bridge::OperatorScope scope(counting);
    at::linear(x, x).tanh().sum().backward();
  }
  CHECK(counting.seen["aten::linear"] == 0);  // linear is mm below autograd
  CHECK(counting.seen["aten::mm"] == 3);      // one forward, two backward
  CHECK(counting.seen["aten::tanh"] == 1);
  CHECK(counting.seen["aten::tanh_backward"] == 1);
  Counts before = counting.seen;
  at::linear(x, x).tanh().sum().backward();
  CHECK(counting.seen == before);
}

TEST_CASE("operators: results and gradients have the same bits in a scope as outside") {
  auto train = [] {
    torch::manual_seed(1);
    at::Tensor x = leaf();
    at::Tensor y = at::dropout(at::linear(x, x.sin()), 0.4, true).softmax(1) * 3;
    y.mul_(2).select(0, 1).pow(2).sum().backward();
    return std::vector{y.detach(), x.grad()};
  };
  auto without = train();
  Counting counting;
  bridge::OperatorScope scope(counting);
  CHECK(test::same_bits(train(), without));
}

TEST_CASE("operators: those that draw random numbers can be intercepted alone") {
  CHECK(bridge::operator_modes_available<bridge::RandomOperators>());
  const at::Tensor x = leaf(), weights = at::ones({4});
  auto draw = [&] {
    torch::manual_seed(1);
    return std::vector{at::dropout(x.sin(), 0.5, /*train=*/true),
                       at::alpha_dropout(x, 0.5, true),
                       torch::randn({3}),
                       at::empty({3}).normal_(),
                       at::randint(9, {4}),
                       at::randperm(5),
                       at::multinomial(weights, 2),
                       at::bernoulli(at::rand({4})),
                       at::dropout(x, 0.5, /*train=*/false)};
  };
  const auto without = draw();
  Counting counting;
  {
    bridge::OperatorScope<bridge::RandomOperators> scope(counting);
    CHECK(test::same_bits(draw(), without));
  }
  const Counts seen = counting.seen;
  CHECK(seen == Counts{{"aten::bernoulli_", 2},
                       {"aten::randn", 1},
                       {"aten::normal_", 1},
                       {"aten::randint", 1},
                       {"aten::randperm", 1},
                       {"aten::multinomial", 1},
                       {"aten::rand", 1},
                       {"aten::bernoulli", 1}});
  draw();
  CHECK(counting.seen == seen);
}

TEST_CASE("operators: scopes nest, and the outer one sees what the inner one computes") {
  Counting outer;
  ReplaceByArgument inner("aten::sin");
  at::Tensor x = at::ones({2});
  bridge::OperatorScope first(outer);
  {
    bridge::OperatorScope second(inner);
    CHECK(at::equal(at::cos(at::sin(x)), x.cos()));
  }
  CHECK(outer.seen["aten::sin"] == 0);
  CHECK(outer.seen["aten::cos"] == 2);
  at::sin(x);
  CHECK(outer.seen["aten::sin"] == 1);
}

TEST_CASE("operators: operators that a mode calls are not intercepted") {
  struct Calls : Counting {
    void call(bridge::OperatorCall& call) override {
      at::zeros({2}).add_(1);
      Counting::call(call);
    }
  } mode;
  bridge::OperatorScope scope(mode);
  at::tanh(at::ones({2}));
  CHECK(mode.seen["aten::tanh"] == 1);
  CHECK(mode.seen["aten::add_"] == 0);
}

TEST_CASE("operators: an exception of a mode reaches the caller, and the scope closes") {
  struct Throws : bridge::OperatorMode {
    void call(bridge::OperatorCall& call) override {
      if (call.name().name == "aten::exp") throw std::runtime_error("no exp");
      call.compute();
    }
  } mode;
  CHECK(test::message_of([&] {
          bridge::OperatorScope scope(mode);
          at::exp(at::ones({2}));
        }) == "no exp");
  CHECK_NOTHROW(at::exp(at::ones({2})));
}

TEST_CASE("operators: a scope applies to other threads only with its thread-local state") {
  Counting counting;
  bridge::OperatorScope scope(counting);
  std::thread([] { at::sin(at::ones({2})); }).join();
  CHECK(counting.seen["aten::sin"] == 0);
  at::ThreadLocalState state;  // as autograd propagates it to the threads of devices
  std::thread([&] {
    at::ThreadLocalStateGuard same(state);
    at::sin(at::ones({2}));
  }).join();
  CHECK(counting.seen["aten::sin"] == 1);
}

TEST_CASE("operators: schema, arguments and results are those of the call") {
  struct Describe : bridge::OperatorMode {
    std::string text;
    void call(bridge::OperatorCall& call) override {
      bool is_sum = call.name().name == "aten::add_";
      if (is_sum) text = call.schema().arguments()[1].name() + c10::str(call.arguments().size());
      if (is_sum) text += call.schema().is_mutable() ? " mutable " : " ";
      bool draws = call.draws_random_numbers();
      call.compute();
      if (is_sum) text += c10::str(call.results()[0].toTensor().sum().item<double>());
      if (draws) text += " draws";
    }
  } mode;
  bridge::OperatorScope scope(mode);
  at::ones({2}).add_(3);
  at::rand({2});
  CHECK(mode.text == "other3 mutable 8 draws");
}

at::Tensor doubled(const at::Tensor& x) { return x + x; }
at::Tensor tripled(const at::Tensor& x) { return x * 3; }

TEST_CASE("operators: a custom operator is one call in a scope, and a plain function without one") {
  at::Tensor x = at::ones({2});
  auto call = [&] {
    return bridge::call_as_operator<&doubled>("ikebana::test(Tensor x) -> Tensor", x);
  };
  CHECK(call().sum().item<double>() == 4);
  CHECK(!c10::Dispatcher::singleton().findSchema({"ikebana::test", ""}));
  Counting counting;
  {
    bridge::OperatorScope scope(counting);
    CHECK(at::equal(call(), at::full({2}, 2.0)));
    CHECK(at::equal(call(), at::full({2}, 2.0)));
    // Calls it as another version of the library would, with another schema.
    CHECK(at::equal(bridge::call_as_operator<&tripled>("ikebana::test(Tensor other) -> Tensor", x),
                    at::full({2}, 3.0)));
  }
  CHECK(counting.seen["ikebana::test"] == 2);
  CHECK(counting.seen["aten::add"] == 0);
}

}  // namespace test::operators
