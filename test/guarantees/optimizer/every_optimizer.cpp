// Guarantees that every optimizer must give; each test runs on all of them.

#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "alone.hpp"

namespace guarantees::every_optimizer {

using All = OptimizersAnd<LibTorchOptimizer<torch::optim::RMSprop>>;

at::Tensor one_number(double value) { return at::full({}, value, at::kFloat); }

/// Returns gradients that would corrupt everything that they are added to.
Tensors poisoned(Tensors gradients) {
  for (at::Tensor& g : gradients) {
    at::Tensor numbers = elements_of(g);
    numbers.fill_(numbers.dim() % 2 ? NAN : INFINITY);
  }
  return gradients;
}

/// The largest difference between the code paths of devices and of the CPU after ten steps: the
/// operators round differently from one loop, and an 8-bit moment may round to its neighbour.
template <class Policy>
constexpr double near = std::is_same_v<Policy, AdamW8bit> ? 5e-3 : 2e-6;

TEST_CASE("an optimizer that is restored midway continues to the bit") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true}) {
      Alone<Policy> whole(lively<Policy>()), other(lively<Policy>());
      if (on_device) whole.as_elsewhere(), other.as_elsewhere();
      whole.run(0, 7, in_turn);
      StateDict midway = whole.state();
      lr_of(other.values()) = 7;
      other.run(20, 23);  // overwritten by the restore
      other.restore(midway);
      CHECK(same_state(other.state(), midway));
      CHECK(lr_of(other.values()) == lr_of(whole.values()));
      whole.run(7, 15, in_turn), other.run(7, 15, in_turn);
      CHECK(same_state(other.state(), whole.state()));
      CHECK_FALSE(same_state(midway, whole.state()));
    }
  });
}

TEST_CASE("a rejected step changes no bit of a parameter, a moment or a count") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true}) {
      CAPTURE(on_device);
      Alone<Policy> plain(lively<Policy>()), tried(lively<Policy>());
      if (on_device) plain.as_elsewhere(), tried.as_elsewhere();
      for (int s = 0; s < 6; ++s) {
        if (s != 3) {  // also before the first step
          auto before = tried.state();
          tried.step(poisoned(tried.gradients(s)), one_number(2), one_number(1));
          if (s != 0) CHECK(same_state(tried.state(), before));
        }
        plain.step(plain.gradients(s), {}, one_number(0));
        tried.step(tried.gradients(s), {}, one_number(0));
        CHECK(same_state(plain.state(), tried.state()));
      }
    }
  });
}

TEST_CASE("a gradient that is not finite makes its parameter not finite") {  // a later loss tells
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true})
      for (double value : {NAN, -NAN, INFINITY, -INFINITY}) {
        CAPTURE(on_device);
        CAPTURE(value);
        Alone<Policy> alone(lively<Policy>());
        if (on_device) alone.as_elsewhere();
        alone.run(0, 2);
        auto gradients = alone.gradients(2);
        for (at::Tensor& g : gradients) elements_of(g).mul_(value);
        alone.step(gradients);
        for (const at::Tensor& p : alone.masters.values)
          CHECK_FALSE(p.isfinite().all().item<bool>());
      }
  });
}

TEST_CASE("complex parameters are refused before anything changes") {
  OptimizersAnd<>::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> alone(lively<Policy>(), at::kComplexFloat);
    Tensors before;
    for (const at::Tensor& p : alone.masters.values) before.push_back(p.detach().clone());
    auto text = test::message_of<BadValue>([&] { alone.run(0, 1); });
    CHECK(test::contains(text, "dtype ComplexFloat"));
    CHECK(test::same_bits(alone.masters.values, before));
  });
}

TEST_CASE("a divisor equals a division of all gradients") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true}) {
      Alone<Policy> plain(lively<Policy>()), divided(lively<Policy>());
      if (on_device) plain.as_elsewhere(), divided.as_elsewhere();
      for (int s = 0; s < 5; ++s) {
        plain.step(plain.gradients(s));
        divided.step(divided.gradients(s, always, 1 << s), one_number(1 << s));
      }
      CHECK(same_state(plain.state(), divided.state()));  // powers of two, so to the bit
      divided.step(divided.gradients(5, always, 3.7), one_number(3.7));
      plain.step(plain.gradients(5));
      CHECK(test::worst_relative(plain.masters.values, divided.masters.values) < near<Policy>);
    }
  });
}

TEST_CASE("the operators of any device update as the CPU's own loops do") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (auto type : {at::kFloat, at::kDouble}) {
      Alone<Policy> here(lively<Policy>(), type), there(lively<Policy>(), type);
      there.as_elsewhere();
      here.run(0, 10, in_turn), there.run(0, 10, in_turn);
      CHECK(test::worst_relative(there.masters.values, here.masters.values) < near<Policy>);
    }
  });
}

TEST_CASE("a parameter without a gradient is skipped, and one with a zero gradient is not") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> out(lively<Policy>()), zero(lively<Policy>());
    out.run(0, 3), zero.run(0, 3);
    StateDict before = out.state();
    out.run(3, 4, [](std::size_t i, int) { return i != 0; });
    auto gradients = zero.gradients(3);
    gradients[0].zero_();
    zero.step(gradients);
    StateDict after = out.state();
    for (const auto& item : before) {
      const std::string& key = item.first;
      CAPTURE(key);
      const bool same = test::same_bits(item.second, after[key]);
      if (test::contains(key, "conv_weight")) CHECK(same);
      else if (test::contains(key, ".step")) CHECK_FALSE(same);
    }
    if constexpr (!std::is_same_v<Policy, Rprop>)  // it moves by the sign of the gradient alone
      CHECK_FALSE(test::same_bits(zero.state()["conv_weight"], before["conv_weight"]));
    CHECK(test::same_bits(zero.state()["linear_bias"], after["linear_bias"]));
  });
}

TEST_CASE("half-precision parameters are updated, and gradients of any strides accepted") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> whole(lively<Policy>()), half(lively<Policy>(), at::kBFloat16);
    for (std::size_t i = 0; i < half.masters.values.size(); ++i)
      whole.masters.values[i].variable_data().copy_(half.masters.values[i]);
    for (int s = 0; s < 4; ++s) {
      auto gradients = half.gradients(s);
      gradients[0] = gradients[0].transpose(0, 1).contiguous().transpose(0, 1);
      half.step(gradients);
      for (at::Tensor& g : gradients) g = g.to(at::kFloat);
      whole.step(gradients);
    }
    CHECK(test::worst_relative(half.masters.values, whole.masters.values) < 3e-2);
  });
}

TEST_CASE("a state of another dtype is refused, and so is a parameter that changed") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> other(lively<Policy>(), at::kDouble), alone(lively<Policy>());
    other.run(0, 2), alone.run(0, 2);
    CHECK_THROWS_AS(alone.restore(other.state()), BadState);
    auto gradients = alone.gradients(3);
    alone.masters.values[1].set_data(at::zeros({9, 9}));
    gradients[1] = at::ones({9, 9});
    if constexpr (!is_sparse<Policy>) CHECK_THROWS_AS(alone.step(gradients), BadModel);
  });
}

TEST_CASE("values that are not finite are refused") {
  auto says = [](auto policy, const char* field) {
    auto text =
        test::message_of<BadValue>([&] { Mechanism<decltype(policy)> made(std::move(policy)); });
    return test::contains(text, field) && test::contains(text, "finite");
  };
  CHECK(says(SGD{.momentum = INFINITY}, "momentum is inf"));
  CHECK(says(SGD{.momentum = 0.9, .dampening = NAN}, "dampening nan"));
  CHECK(says(AdamW{.eps = INFINITY}, "eps is inf"));
  CHECK(says(AdamW8bit{.eps = INFINITY}, "eps is inf"));
  CHECK(says(SparseAdam{.eps = INFINITY}, "eps is inf"));
  CHECK(says(Adagrad{.initial_accumulator_value = INFINITY}, "initial_accumulator_value inf"));
  CHECK(says(Adafactor{.beta2_decay = -INFINITY}, "beta2_decay is -inf"));
  CHECK(says(Adafactor{.eps = {NAN, 1e-3}}, "eps"));
  CHECK(says(Muon{.momentum = INFINITY}, "momentum is inf"));
  CHECK(says(Muon{.ns_coefficients = {1, 2, NAN}}, "ns_coefficients"));
  CHECK(says(Muon{.eps = NAN}, "eps"));
  CHECK(says(RMSprop{.alpha = -0.1}, "alpha is -0.1"));
  CHECK(says(RMSprop{.momentum = INFINITY}, "momentum is inf"));
  CHECK(says(NAdam{.momentum_decay = -1}, "momentum_decay is -1"));
  CHECK(says(RAdam{.eps = -1}, "eps is -1"));
  CHECK(says(ASGD{.lambd = NAN}, "lambd is nan"));
  CHECK(says(Rprop{.step_sizes = {2, 1}}, "step_sizes are 2 and 1"));
  CHECK(says(LAMB{.weight_decay = -1}, "weight_decay is -1"));
}

TEST_CASE("values outside of PyTorch's ranges are refused") {
  auto says = [](auto policy, const char* field) {
    auto text =
        test::message_of<BadValue>([&] { Mechanism<decltype(policy)> made(std::move(policy)); });
    return test::contains(text, field);
  };
  CHECK(says(NAdam{.betas = {0.9, 1}}, "one of betas is 1"));
  CHECK(says(Adamax{.betas = {-0.1, 0.9}}, "one of betas is -0.1"));
  CHECK(says(LAMB{.betas = {1, 0.9}}, "one of betas is 1"));
  CHECK(says(Adadelta{.rho = 1.1}, "rho is 1.1; it must lie in [0, 1]"));
  CHECK(says(Rprop{.etas = {0.5, 1}}, "etas are 0.5 and 1"));
  CHECK(says(Rprop{.etas = {0, 1.2}}, "etas are 0 and 1.2"));
  Alone<RMSprop> changed(RMSprop{});
  changed.values().centered = true;
  CHECK(test::contains(test::message_of<BadValue>([&] { changed.run(0, 1); }), "centered"));
}

}  // namespace guarantees::every_optimizer
