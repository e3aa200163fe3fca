// Pack and unpack hooks of saved tensors, and the engine that calls them.
#include "test.hpp"

#include <functional>
#include <ikebana/bridge/saved_tensors.hpp>
#include <memory>
#include <stdexcept>
#include <thread>

#include "recorder.hpp"

using namespace ikebana;

namespace test::saved_tensors {

struct Net {
  torch::nn::Sequential layers{
      torch::nn::Linear(8, 16), torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
      torch::nn::GELU(), torch::nn::Dropout(0.3), torch::nn::Linear(16, 4)};
  at::Tensor input = torch::randn({5, 8});

  /// Returns the gradients of a loss, or of a gradient penalty, with `hooks` during the forward
  /// pass.
  std::vector<at::Tensor> gradients(bridge::SavedTensorHooks* hooks, bool penalty = false) {
    layers->zero_grad(true);
    torch::manual_seed(3);
    auto x = input.clone().requires_grad_();
    at::Tensor loss;
    {
      bridge::SavedTensorScope scope(hooks);
      loss = layers->forward(x).pow(2).sum();
      if (penalty) loss = loss + torch::autograd::grad({loss}, {x}, {}, true, true)[0].norm();
    }
    loss.backward();
    std::vector<at::Tensor> result{loss.detach(), x.grad()};
    for (auto& p : layers->parameters())
      if (p.grad().defined()) result.push_back(p.grad().clone());
    return result;
  }
};

/// RAII: installs this library's engine again after a test installed another one.
struct EngineRestored {
  ~EngineRestored() {
    torch::autograd::set_default_engine_stub(&torch::autograd::Engine::get_base_engine);
    bridge::SavedTensorEngineV2::install();
  }
};

struct OtherEngine : torch::autograd::Engine {
  static torch::autograd::Engine& get() {
    static auto& engine = *new OtherEngine;
    return engine;
  }
};

TEST_CASE("saved tensors: hooks are called for each saved tensor and change no bit") {
  Net net;
  for (bool penalty : {false, true}) {
    const auto plain = net.gradients(nullptr, penalty);
    Recorder recorder;
    const auto hooked = net.gradients(&recorder, penalty);
    CHECK(test::same_bits(plain, hooked));
    CHECK(recorder.packed > 5);
    CHECK(recorder.unpacked >= (penalty ? recorder.packed / 2 : 5));
    CHECK(recorder.existing == 0);  // the graph is destroyed, and with it its hooks
  }
}

TEST_CASE("saved tensors: backward uses what the unpack hook returns") {
  struct Twice : Recorder {
    struct Doubling : Hook {
      using Hook::Hook;
      at::Tensor call_unpack_hook() override { return 2 * Hook::call_unpack_hook(); }
    };
    std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
      return std::make_unique<Doubling>(*this);
    }
  } twice;
  auto a = leaf({3}), b = leaf({3});
  at::Tensor y;
  {
    bridge::SavedTensorScope scope(&twice);
    y = (a * b).sum();
  }
  y.backward();
  CHECK(test::same_bits(a.grad(), 2 * b.detach()));
  CHECK(test::same_bits(b.grad(), 2 * a.detach()));
}

TEST_CASE(
    "saved tensors: a product packs two tensors, and each pass of a retained graph unpacks two") {
  Recorder recorder;
  auto a = leaf({3}), b = leaf({3});
  at::Tensor y;
  {
    bridge::SavedTensorScope scope(&recorder);
    y = (a * b).sum();
  }
  CHECK(recorder.packed == 2);
  y.backward({}, true);
  CHECK(recorder.unpacked == 2);
  const auto once = a.grad().clone();
  y.backward();
  CHECK(recorder.unpacked == 4);
  CHECK(test::same_bits(a.grad(), once + once));
}

TEST_CASE("saved tensors: the innermost scope applies, and nullptr suspends it") {
  Recorder outer, inner, declining;
  declining.declines = true;
  auto a = leaf({3});
  auto save = [&] { return a.exp(); };  // saves one tensor
  bridge::SavedTensorScope first(&outer);
  auto kept = save();
  {
    bridge::SavedTensorScope second(&inner);
    kept = save();
    {
      bridge::SavedTensorScope suspended(nullptr);
      kept = save();
    }
    {
      bridge::SavedTensorScope third(&declining);
      kept = save();
    }
    kept = save();
  }
  kept = save();
  CHECK(outer.packed == 2);
  CHECK(inner.packed == 2);
  CHECK(declining.made == 1);
  CHECK(declining.packed == 0);
}

TEST_CASE("saved tensors: scopes may close in any order") {
  Recorder outer, inner;
  auto a = leaf({3});
  auto first = std::make_unique<bridge::SavedTensorScope>(&outer);
  auto second = std::make_unique<bridge::SavedTensorScope>(&inner);
  first.reset();
  auto kept = a.exp();
  second.reset();
  kept = a.exp();
  CHECK(inner.packed == 1);
  CHECK(outer.packed == 0);
}

TEST_CASE("saved tensors: a scope closes when it is left by an exception") {
  Recorder recorder;
  auto a = leaf({3});
  CHECK_THROWS_AS(
      [&] {
        bridge::SavedTensorScope scope(&recorder);
        auto kept = a.exp();
        a.view({2, 2});
      }(),
      c10::Error);
  auto kept = a.exp();
  CHECK(recorder.packed == 1);
}

TEST_CASE("saved tensors: an exception of a hook reaches the caller") {
  struct Throwing : bridge::SavedTensorHooks {
    std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
      throw std::domain_error("no room");
    }
  } throwing;
  auto a = leaf({3});
  {
    bridge::SavedTensorScope scope(&throwing);
    CHECK_THROWS_AS(a.exp(), std::domain_error);
  }
  auto y = a.exp().sum();
  y.backward();
  CHECK(test::same_bits(a.grad(), a.detach().exp()));
}

TEST_CASE("saved tensors: a scope applies to its own thread only") {
  Recorder recorder;
  bridge::SavedTensorScope scope(&recorder);
  std::thread([] {
    auto a = leaf({3});
    a.exp().sum().backward();
  }).join();
  CHECK(recorder.made == 0);
}

TEST_CASE("saved tensors: scopes of several threads are independent") {
  constexpr int threads = 4, rounds = 50;
  std::vector<Recorder> recorders(threads);
  std::vector<int> equal(threads);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        auto a = torch::full({64}, 1.0 + t + round).requires_grad_();
        bridge::SavedTensorScope scope(&recorders[t]);
        (a * a * a).sum().backward();
        equal[t] += test::same_bits(a.grad(), (a * a + a * a + a * a).detach());
      }
    });
  for (auto& thread : running) thread.join();
  for (int t = 0; t < threads; ++t) {
    CHECK(equal[t] == rounds);
    CHECK(recorders[t].made == recorders[0].made);
    CHECK(recorders[t].packed == recorders[t].made);
    CHECK(recorders[t].existing == 0);
  }
}

TEST_CASE("saved tensors: another engine is not replaced, and a scope is then an error") {
  CHECK(bridge::saved_tensor_hooks_available());
  EngineRestored restored;
  torch::autograd::set_default_engine_stub(&OtherEngine::get);
  CHECK_FALSE(bridge::saved_tensor_hooks_available());
  CHECK_FALSE(bridge::SavedTensorEngineV2::install());
  CHECK(&torch::autograd::Engine::get_default_engine() == &OtherEngine::get());
  Recorder recorder;
  const auto message = test::message_of<Error>([&] { bridge::SavedTensorScope scope(&recorder); });
  CHECK(test::contains(message, "OtherEngine"));
  CHECK(test::contains(message, "without Python's torch module"));
  auto a = leaf({3});
  a.exp().sum().backward();
  CHECK(test::same_bits(a.grad(), a.detach().exp()));
}

TEST_CASE("saved tensors: after another engine was replaced, hooks are called again") {
  CHECK(bridge::saved_tensor_hooks_available());
  CHECK_FALSE(bridge::SavedTensorEngineV2::install());  // it is installed already
  Recorder recorder;
  bridge::SavedTensorScope scope(&recorder);
  auto kept = leaf({3}).exp();
  CHECK(recorder.packed == 1);
}

}  // namespace test::saved_tensors
