// Several hooks after gradient accumulation share the slot of one tensor.
#include "test.hpp"

#include <ikebana/bridge/gradients.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

using namespace ikebana;

namespace test::gradients {

at::Tensor leaf() { return torch::randn({3}).requires_grad_(); }
void backward(const at::Tensor& t) { (t * t).sum().backward(); }
auto& slot(const at::Tensor& t) { return torch::autograd::impl::post_acc_grad_hooks(t); }

/// A hook that other code puts into the slot.
struct OtherHook : torch::autograd::PostAccumulateGradHook {
  explicit OtherHook(std::string& to) : log(to) {}
  void operator()(const at::Tensor&) override { log += 'f'; }
  std::string& log;
};

struct Logged {
  std::string log;
  std::optional<bridge::PostAccumulateHook> add(const at::Tensor& t, char name) {
    return std::optional<bridge::PostAccumulateHook>(
        std::in_place, t, [this, name](const at::Tensor&) { log += name; });
  }
  std::string run(const at::Tensor& t) {
    log.clear();
    backward(t);
    return log;
  }
};

TEST_CASE("gradients: a hook runs once per backward pass, after the gradient is complete") {
  auto t = leaf();
  int calls = 0;
  at::Tensor gradient;
  bridge::PostAccumulateHook hook(t, [&](const at::Tensor& x) {
    ++calls;
    CHECK(x.is_same(t));
    gradient = x.grad().clone();
  });
  (t * t + 3 * t).sum().backward();
  CHECK(calls == 1);
  CHECK(test::same_bits(gradient, t.grad()));
  backward(t);
  CHECK(calls == 2);
  CHECK(test::same_bits(gradient, t.grad()));
}

/// A backward that has no gradient for its second argument.
struct FirstOnly : torch::autograd::Function<FirstOnly> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& a,
                            const at::Tensor& b) {
    return a + b;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], {}};
  }
};

TEST_CASE("gradients: a hook is not called where a backward passes on no gradient") {
  const at::Tensor a = leaf(), b = leaf();
  Logged hooks;
  const auto first = hooks.add(a, 'a'), second = hooks.add(b, 'b');
  FirstOnly::apply(a, b).sum().backward();
  CHECK(hooks.log == "a");
  CHECK_FALSE(b.grad().defined());
}

TEST_CASE("gradients: a hook may remove the gradient") {
  auto t = leaf();
  bridge::PostAccumulateHook hook(t, [](const at::Tensor& x) { x.mutable_grad() = at::Tensor(); });
  backward(t);
  CHECK_FALSE(t.grad().defined());
}

TEST_CASE("gradients: hooks run in the order they were added, and can be removed in any order") {
  const std::vector<std::vector<int>> orders{{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                             {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (bool other_hook : {false, true})
    for (const auto& order : orders) {
      auto t = leaf();
      Logged logged;
      if (other_hook) slot(t) = std::make_unique<OtherHook>(logged.log);
      const auto* previous = slot(t).get();
      std::vector<std::optional<bridge::PostAccumulateHook>> hooks(3);
      for (int i = 0; i < 3; ++i) hooks[i] = logged.add(t, static_cast<char>('a' + i));
      std::string expected = other_hook ? "fabc" : "abc";
      CHECK(logged.run(t) == expected);
      for (int index : order) {
        hooks[index].reset();
        expected.erase(expected.find(static_cast<char>('a' + index)), 1);
        CHECK(logged.run(t) == expected);
      }
      CHECK(slot(t).get() == previous);
    }
}

TEST_CASE("gradients: other code may wrap or replace our hooks afterwards") {
  struct Wrapper : OtherHook {
    using OtherHook::OtherHook;
    void operator()(const at::Tensor& t) override {
      (*inner)(t);
      log += 'w';
    }
    std::unique_ptr<torch::autograd::PostAccumulateGradHook> inner;
  };
  auto t = leaf();
  Logged logged;
  auto a = logged.add(t, 'a');
  auto wrapper = std::make_unique<Wrapper>(logged.log);
  wrapper->inner = std::move(slot(t));
  slot(t) = std::move(wrapper);
  auto b = logged.add(t, 'b');
  CHECK(logged.run(t) == "awb");
  a.reset();
  CHECK(logged.run(t) == "wb");
  b.reset();
  CHECK(logged.run(t) == "w");

  auto c = logged.add(t, 'c');
  slot(t) = std::make_unique<OtherHook>(logged.log);
  CHECK(logged.run(t) == "f");
  c.reset();
  CHECK(logged.run(t) == "f");
}

TEST_CASE("gradients: a hook may remove itself, or the next one, while it runs") {
  auto t = leaf();
  Logged logged;
  std::optional<bridge::PostAccumulateHook> self, next;
  std::string text(100, 'x');  // on the heap, so that a sanitizer sees an early destruction
  self.emplace(t, [&, text](const at::Tensor&) {
    self.reset();
    next.reset();
    logged.log += text.front();
  });
  next = logged.add(t, 'n');
  CHECK(logged.run(t) == "x");
  CHECK(slot(t) == nullptr);
  CHECK(logged.run(t).empty());
}

TEST_CASE("gradients: a hook that is added while hooks run is first called in the next pass") {
  auto t = leaf();
  Logged logged;
  std::optional<bridge::PostAccumulateHook> late;
  bridge::PostAccumulateHook first(t, [&](const at::Tensor&) {
    logged.log += '1';
    if (!late) late = logged.add(t, '2');
  });
  CHECK(logged.run(t) == "1");
  CHECK(logged.run(t) == "12");
}

TEST_CASE("gradients: handles can be moved, and destroyed before or after the tensor") {
  Logged logged;
  std::optional<bridge::PostAccumulateHook> orphan;
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> expired_leaf(
      leaf().getIntrusivePtr());
  {
    auto t = leaf();
    expired_leaf =
        c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(t.getIntrusivePtr());
    orphan = logged.add(t, 'o');
  }
  CHECK(expired_leaf.expired());  // a handle does not keep its tensor
  orphan.reset();

  auto t = leaf(), u = leaf();
  auto a = std::move(*logged.add(t, 'a'));
  CHECK(logged.run(t) == "a");
  auto b = std::move(*logged.add(u, 'b'));
  a = std::move(b);
  CHECK(logged.run(t).empty());
  CHECK(slot(t) == nullptr);
  CHECK(logged.run(u) == "b");
}

TEST_CASE("gradients: the captures of a hook are destroyed with its handle") {
  auto t = leaf();
  auto held = std::make_shared<int>();
  {
    bridge::PostAccumulateHook hook(t, [held](const at::Tensor&) {});
    bridge::PostAccumulateHook other(t, [](const at::Tensor&) {});
    CHECK(held.use_count() == 2);
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("gradients: a hook's exception reaches the caller of backward") {
  auto t = leaf();
  bridge::PostAccumulateHook hook(t, [](const at::Tensor&) { throw std::domain_error("no"); });
  CHECK_THROWS_AS(backward(t), std::domain_error);
}

TEST_CASE("gradients: a tensor that cannot have a gradient is an error") {
  auto ignore = [](const at::Tensor&) {};
  for (const auto& wrong : {at::Tensor(), torch::randn({3}), leaf() * 2}) {
    const auto message =
        test::message_of<Error>([&] { bridge::PostAccumulateHook(wrong, ignore); });
    CHECK(test::contains(message, "not a leaf that requires a gradient"));
  }
}

}  // namespace test::gradients
