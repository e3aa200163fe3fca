// A step that a graph would not repeat is refused, and one that fails leaves everything as it was.
#include "capture.hpp"

namespace gpu::capture_cases {

/// Returns the error of some steps with such a body.
template <class... Policies>
std::string error_of(const BodyImpl::Function& body, const Policies&... policies) {
  torch::manual_seed(3);
  BodyNet model(body);
  model->to(device());
  Trainer trainer{model, Counted{}, AdamW{}, Capture<WholeStep>{}, policies...};
  const auto before = [&] {
    auto state = trainer.state();
    for (auto& [name, t] : state) t = t.cpu().clone();
    return state;
  };
  for (int i = 0; i < 7; ++i) {
    const Rows batch = rows(i);
    const auto kept = before();
    const std::string text = test::message_of<Error>([&] { trainer.step(batch); });
    if (text.empty()) continue;
    for (const auto& [name, t] : before()) {
      CAPTURE(name);
      CHECK(test::same_bits(t, kept.at(name)));
    }
    return text;
  }
  return {};
}

TEST_CASE("capture: what a graph would not repeat is refused with operator, unit and cure") {
  auto contains = [](const std::string& text, std::initializer_list<const char*> parts) {
    CAPTURE(text);
    for (const char* part : parts) CHECK(test::contains(text, part));
  };
  contains(error_of([](BodyImpl& self, const at::Tensor& x) {
             return self.linear(x) * self.linear(x).sum().item<float>();
           }),
           {"aten::_local_scalar_dense", "in forward of `body`", "gives the host a number"});
  contains(
      error_of([](BodyImpl& self, const at::Tensor& x) { return self.linear(x) * self.loose; }),
      {"aten::mul", "of `body`", "that no operator of the step makes", "register_buffer"});
  contains(error_of([](BodyImpl& self, const at::Tensor& x) {
             return self.linear(x) * double(++self.calls % 7);
           }),
           {"`body` changes a member of itself"});
  // On a CPU, and only there, a replay is given the batch itself.
  if (on_cpu()) return;
  contains(error_of([](BodyImpl& self, const at::Tensor& x) {
             return self.linear(x) * at::arange(12, at::kFloat).to(x.device());
           }),
           {"of `body`", "makes a tensor on cpu", "a graph repeats only what"});
  contains(error_of([](BodyImpl& self, const at::Tensor& x) {
             at::Tensor same = x;
             return self.linear(same.mul_(2));
           }),
           {"of the batch is changed by operators", "Change a clone"});
  contains(
      error_of([](BodyImpl& self,
                  const at::Tensor& x) { return at::dropout(self.linear(x), 0.3, /*train=*/true); },
               Checkpoint<Full>{}),
      {"the random generator is set back in backward", "Leave out Checkpoint"});
}

TEST_CASE("capture: a graph of autograd that was made outside of the step is named") {
  Plain model = made<Plain>();
  Trainer trainer{model, Counted{}, AdamW{}, Capture<WholeStep>{}};
  for (int i = 0; i < 3; ++i) trainer.step(rows(i));
  at::Tensor kept = model->head(at::ones({1, 12}, at::TensorOptions(device())));
  const std::string error = test::message_of<BadModel>([&] { trainer.step(rows(3)); });
  CHECK((on_cpu() ? error.empty()
                  : test::contains(error, "`head.weight` is in a graph of autograd")));
  kept.reset();
  for (int i = 4; i < 6; ++i) trainer.step(rows(i));
  CHECK(trainer.template mechanism<Capture<WholeStep>>().replays() == (on_cpu() ? 2 : 1));
}

TEST_CASE("capture: a step that a graph cannot hold runs as usual under OnRefusal::Eager") {
  auto body = [](BodyImpl& self, const at::Tensor& x) {
    return self.linear(x) * self.linear(x).sum().item<float>();
  };
  auto losses = [&](auto... policies) {
    torch::manual_seed(3);
    BodyNet model(body);
    model->to(device());
    Trainer trainer{model, Counted{}, AdamW{}, policies...};
    std::vector<double> all;
    for (int i = 0; i < 6; ++i) all.push_back(trainer.step(rows(i)).loss());
    return all;
  };
  CHECK(losses(Capture<WholeStep>{.on_refusal = OnRefusal::Eager}) == losses());
}

TEST_CASE("capture: an error of the model's within a capture is that error, and steps go on") {
  const Deterministic deterministic;
  auto losses = [&](int failing, auto... policies) {
    auto calls = std::make_shared<int>(0);
    torch::manual_seed(3);
    BodyNet model([=](BodyImpl& self, const at::Tensor& x) {
      const at::Tensor y = at::gelu(self.linear(x));
      if (++*calls == failing) throw std::runtime_error("an error of the model's own");
      return self.linear(y);
    });
    model->to(device());
    Trainer trainer{model, Counted{}, AdamW{.lr = 1e-2}, policies...};
    std::vector<double> all;
    for (int i = 0; i < 8; ++i) {
      std::string text;
      try {
        all.push_back(trainer.step(rows(i)).loss());
      } catch (const std::exception& error) {
        text = error.what();
      }
      CHECK(test::contains(text, i + 1 == failing ? "an error of the model's own" : ""));
    }
    return all;
  };
  for (const int failing : {3, 4}) {
    CAPTURE(failing);
    CHECK(losses(failing, Capture<WholeStep>{}) == losses(failing));
    const Precision<BF16Weights> kept;
    CHECK(losses(failing, kept, Capture<WholeStep>{}) == losses(failing, kept));
  }
}

TEST_CASE("capture: a capture that fails half-way leaves everything as it was") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device can be limited");
  const Deterministic deterministic;
  const AdamW policy{.lr = 1e-2};
  auto state = [](auto& trainer) {
    StateDict all = trainer.state();
    for (auto& [name, t] : all) t = t.cpu().clone();
    return all;
  };
  int failed = 0;
  for (std::int64_t more = 0; more < 12 << 10; more += 512) {
    Trainer trainer{made<Random>(), Counted{}, policy, Capture<WholeStep>{}};
    for (int i = 0; i < 3; ++i) stepped(trainer, rows(i), i);
    const StateDict before = state(trainer);
    const Rows batch = rows(3);
    limit_memory(allocated().now + more);
    const std::string error = test::message_of<OutOfMemory>([&] { trainer.step(batch); });
    limit_memory(0);
    if (error.empty()) break;
    ++failed;
    CHECK(test::contains(error, "out of memory"));
    StateDict after = state(trainer);
    for (const auto& [name, t] : before)
      if (!test::contains(name, "generator")) CHECK(test::same_bits(t, after.at(name)));
    Trainer other{made<Random>(), Counted{}, policy};
    for (int i = 0; i < 3; ++i) stepped(other, rows(i), i);
    for (int i = 3; i < 6; ++i)
      REQUIRE(difference(stepped(trainer, rows(i), i), stepped(other, rows(i), i)) == "");
    CHECK(trainer.template mechanism<Capture<WholeStep>>().replays() == 2);
  }
  CHECK(failed > 5);
}

}  // namespace gpu::capture_cases
