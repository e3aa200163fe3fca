// Tests values and schedules of groups, and what they need of the optimizer's state, in saved
// states: of every optimizer, alone, in Combined and InBackward.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "group_values.hpp"

namespace guarantees::group_resume {

using namespace group_values;

/// Gives a group one value of its own; returns false if the optimizer has no such field.
using SetOne = std::function<bool(Group&)>;
template <class Policy>
std::vector<std::pair<std::string, SetOne>> single_values() {
  constexpr bool has_betas = requires(Policy v) { v.betas; };
  constexpr bool has_momentum = requires(Policy v) { v.momentum; };
  const CyclicLR cycle{.max_lr = 0.1, .step_size_up = 2, .base_momentum = 0, .max_momentum = 0.9};
  const OneCycleLR one_cycle{.max_lr = 0.1, .total_steps = 9, .base_momentum = 0};
  return {
      {"lr", [](Group& g) { return g.lr = 0.02, true; }},
      {"weight_decay",
       [](Group& g) { return g.weight_decay = 0.3, requires(Policy v) { v.weight_decay; }; }},
      {"betas", [](Group& g) { return g.betas = std::array{0.7, 0.95}, has_betas; }},
      {"eps",
       [](Group& g) {
         return g.eps = 1e-3,
                requires(Policy v) { requires std::same_as<decltype(v.eps), double>; };
       }},
      {"momentum", [](Group& g) { return g.momentum = 0.6, has_momentum; }},
      {"a momentum of 0", [](Group& g) { return g.momentum = 0.0, has_momentum; }},
      {"StepLR", [](Group& g) { return g.schedule = StepLR{.step_size = 2}, true; }},
      {"CyclicLR", [=](Group& g) { return g.schedule = cycle, has_betas || has_momentum; }},
      {"OneCycleLR", [=](Group& g) { return g.schedule = one_cycle, has_betas || has_momentum; }},
      {"a rising momentum",
       [](Group& g) { return g.schedule = MomentumRamp{}, has_betas || has_momentum; }}};
}

/// The gradients of a step, which is the batch.
struct PullsOf {
  template <class Run>
  Loss operator()(Run& run, Shapes& model, const at::Tensor& step) {
    return Pulls{.now = std::make_shared<int>(step.item<int>()), .plan = in_turn}(run, model, step);
  }
};
auto make_step(auto& trainer, int s) { return trainer.step(at::full({1}, s)); }

/// A training of 6 steps has the bits of one that is continued after `cut` steps, by a new trainer
/// and by one that has made other steps.
template <class Make>
void resumes(const Make& make) {
  auto whole = make();
  for (int s = 0; s < 6; ++s) make_step(whole, s);
  torch::manual_seed(0);
  const StateDict expected = whole.state();
  for (const int cut : {1, 3}) {
    CAPTURE(cut);
    auto first = make(), fresh = make(), used = make();
    for (int s = 0; s < cut; ++s) make_step(first, s);
    for (int s = 0; s < 5; ++s) make_step(used, s);
    const StateDict state = first.state();
    for (auto* other : {&fresh, &used}) {
      CHECK(test::message_of([&] { other->restore(state); }) == "");
      for (int s = cut; s < 6; ++s) make_step(*other, s);
      torch::manual_seed(0);
      CHECK(same_state(other->state(), expected));
    }
  }
}
template <class Optimizer, class Schedule>
void resumes(const Optimizer& optimizer, const Schedule& schedule) {
  resumes([&] { return Trainer{Shapes(at::kFloat), PullsOf{}, optimizer, schedule}; });
}

TEST_CASE("group resume: each value of a group, also in backward") {
  Choices<SGD, RMSprop, AdamW>::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (const auto& [what, set] : single_values<Policy>()) {
      CAPTURE(what);
      Policy policy{};
      policy.lr = 0.05;
      policy.groups = {{.match = named(chosen)}};
      if (!set(policy.groups[0])) continue;
      resumes(policy, ConstantLR{});
      resumes(InBackward<Policy>{policy}, ConstantLR{});
    }
  });
}

TEST_CASE("group resume: a schedule of the recipe that cycles the momentum") {
  Choices<SGD, RMSprop>::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Policy policy{};
    const MomentumRamp ramp;
    const CyclicLR cycle{.max_lr = 0.1, .step_size_up = 2, .base_momentum = 0, .max_momentum = 0.9};
    resumes(policy, ramp), resumes(InBackward<Policy>{policy}, ramp);
    resumes(policy, cycle), resumes(InBackward<Policy>{policy}, cycle);
    policy.groups = {{.match = named(chosen), .schedule = ConstantLR{}}};
    resumes(policy, ramp), resumes(InBackward<Policy>{policy}, ramp);
  });
}

TEST_CASE("group resume: an optimizer of Combined") {
  SGD sgd{.lr = 0.1, .groups = {{.match = named("linear_bias"), .momentum = 0.6}}};
  RMSprop rmsprop{.groups = {{.match = named("linear_bias"), .momentum = 0.6}}};
  resumes(Combined<Muon, SGD>{.first = {}, .rest = sgd}, ConstantLR{});
  resumes(Combined<Muon, RMSprop>{.first = {}, .rest = rmsprop}, ConstantLR{});
  resumes(Combined<Lion, SGD>{.match = named(chosen), .first = {}, .rest = {}}, MomentumRamp{});
}

TEST_CASE("group resume: an optimizer of LibTorch's") {
  using torch::optim::RMSpropOptions;
  using torch::optim::SGDOptions;
  const std::vector<Group> groups{{.match = named(chosen), .momentum = 0.6}};
  LibTorchOptimizer<torch::optim::SGD> sgd{SGDOptions(0.1), groups};
  LibTorchOptimizer<torch::optim::RMSprop> rmsprop{RMSpropOptions(0.1), groups};
  resumes(sgd, ConstantLR{}), resumes(sgd, MomentumRamp{});
  resumes(rmsprop, ConstantLR{}), resumes(rmsprop, MomentumRamp{});
}

TEST_CASE("group resume: a momentum that is changed between steps") {
  auto train = [](auto optimizer, const auto& set) {
    auto make = [&] { return Trainer{Shapes(at::kFloat), PullsOf{}, optimizer}; };
    auto one = make(), two = make();
    auto step = [&](auto& trainer, int s) {
      if (s == 2) set(trainer, 0.6);
      if (s == 4) set(trainer, 0.0);
      make_step(trainer, s);
    };
    for (int s = 0; s < 7; ++s) {
      step(one, s);
      if (s > 0) step(two, s);
      CHECK(test::message_of([&] { two.restore(one.state()); }) == "");
    }
    torch::manual_seed(0);
    const StateDict expected = one.state();
    torch::manual_seed(0);
    CHECK(same_state(two.state(), expected));
  };
  Choices<SGD, RMSprop>::each([&]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Policy policy{};
    policy.groups = {{.match = named(chosen), .momentum = 0.0}};
    train(policy, [](auto& t, double m) { t.template get<Policy>().groups[0].momentum = m; });
    train(policy, [](auto& t, double m) { t.template get<Policy>().momentum = m; });
    train(InBackward<Policy>{policy}, [](auto& t, double m) {
      t.template get<InBackward<Policy>>().optimizer.groups[0].momentum = m;
    });
    train(InBackward<Policy>{policy},
          [](auto& t, double m) { t.template get<InBackward<Policy>>().optimizer.momentum = m; });
  });
}

}  // namespace guarantees::group_resume
