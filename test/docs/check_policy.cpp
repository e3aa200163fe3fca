// The checks that docs/extending.md gives to authors of policies: each finds its fault, and none is
// found in a policy that is right.
#include "../../examples/check_policy.hpp"

#include "classes.hpp"

namespace test::check_policies {

enum class Fault { None, NotInState, CountsAtOnce, CountsSkipped, PerRank };

/// Doubles the gradients of every second step.
struct Doubles {
  using axis = ikebana::axis::clip;
  Fault fault = Fault::None;
};
/// Two policies, and one that is made of both.
struct Scales {
  using axis = ikebana::axis::clip;
  double factor = 0.5;
};
struct ScalesAndClips {
  using axis = ikebana::axis::clip;
  Scales scales = {};
  ikebana::ClipGradNorm clips = {};
};

}  // namespace test::check_policies

template <>
struct ikebana::Mechanism<test::check_policies::Doubles> : ikebana::ClipHooks {
  using Fault = test::check_policies::Fault;
  test::check_policies::Doubles values;
  explicit Mechanism(test::check_policies::Doubles v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    const std::int64_t more = has(Fault::PerRank) ? ranks.data().rank() : 1;
    for (at::Tensor& gradient : gradients.values) gradient = gradient * (count_ % 2 + more);
    if (has(Fault::CountsAtOnce)) ++count_;
  }
  void after_update(const Masters&, const StepGradients&) noexcept {
    if (!has(Fault::CountsAtOnce) && !has(Fault::CountsSkipped)) ++count_;
  }
  void end_step(const StepGradients&, Report&) noexcept {
    if (has(Fault::CountsSkipped)) ++count_;
  }
  void state(Archive& archive, const Masters&) {
    if (!has(Fault::NotInState)) archive.number("count", count_);
  }

 private:
  bool has(Fault fault) const { return values.fault == fault; }
  std::int64_t count_ = 1;
};
template <>
struct ikebana::Mechanism<test::check_policies::Scales> : ikebana::ClipHooks {
  test::check_policies::Scales values;
  explicit Mechanism(test::check_policies::Scales v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    for (at::Tensor& gradient : gradients.values) gradient = gradient * values.factor;
  }
};
template <>
struct ikebana::Mechanism<test::check_policies::ScalesAndClips> : ikebana::ClipHooks {
  test::check_policies::ScalesAndClips values;
  explicit Mechanism(test::check_policies::ScalesAndClips v)
      : values(v), scales_(v.scales), clips_(v.clips) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    scales_.values = values.scales, clips_.values = values.clips;
    scales_.clip(gradients, ranks);
    gradients.norm_is_current = false, gradients.squared_norm.reset();  // it has changed gradients
    clips_.clip(gradients, ranks);
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    clips_.accept(gradients, loss, ranks, deferred);
  }

 private:
  Mechanism<test::check_policies::Scales> scales_;
  Mechanism<ClipGradNorm> clips_;
};

namespace test::check_policies {

using namespace ikebana;
namespace nn = torch::nn;

struct Rows {
  at::Tensor input, target;
};
nn::Sequential net() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(16, 32), nn::GELU(), nn::Linear(32, 32));
}
/// Changes buffers and draws random numbers in its forward.
nn::Sequential net_with_buffers() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(16, 32), nn::BatchNorm1d(32), nn::Dropout(0.3),
                        nn::Linear(32, 32));
}
/// Returns what each check says of the policy; an empty text means that it found nothing. The last
/// check takes no net with dropout.
std::vector<std::string> found(Fault fault, nn::Sequential (*made)() = net) {
  std::vector<Rows> batches;
  for (int i = 0; i < 3; ++i) batches.push_back({at::randn({32, 16}), at::randn({32, 32})});
  auto recipe = [&](auto model, auto... more) {
    return Trainer{model, MSELoss{}, SGD{.lr = 0.1}, Doubles{fault}, more...};
  };
  return {message_of([&] { check_policy::resumes(made, recipe, batches); }),
          message_of([&] { check_policy::undoes(made, recipe, batches); }),
          message_of([&] { check_policy::skips(made, recipe, batches); }),
          message_of([&] { check_policy::on_two_ranks<DDP>(net, recipe, batches); })};
}
/// Checks that exactly these of the four checks find a fault.
void finds(Fault fault, const std::vector<const char*>& words, nn::Sequential (*made)() = net) {
  const std::vector<std::string> texts = found(fault, made);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK_MESSAGE(contains(texts[i], words[i]), texts[i]);
    CHECK_MESSAGE(texts[i].empty() == std::string(words[i]).empty(), texts[i]);
  }
}

TEST_CASE("docs/extending.md: the checks of a policy find what is wrong, and nothing else") {
  finds(Fault::None, {"", "", "", ""});
  finds(Fault::NotInState, {"goes on in another way: `0.bias` differs", "", "", ""});
  finds(Fault::CountsAtOnce,
        {"", "a step that throws changes the state", "is skipped changes", ""});
  finds(Fault::CountsSkipped, {"", "", "is skipped changes", ""});
  finds(Fault::PerRank, {"", "", "", "the ranks differ"});
}
TEST_CASE("docs/extending.md: the checks of a policy take a model with batch norm and dropout") {
  finds(Fault::None, {"", "", "", ""}, net_with_buffers);
  finds(Fault::CountsAtOnce, {"", "a step that throws changes the state", "is skipped changes", ""},
        net_with_buffers);
}

TEST_CASE("docs/extending.md: one policy is read, and another is changed") {
  auto model = net();
  std::vector<Rows> batches(3, Rows{at::randn({32, 16}), at::randn({32, 32})});
  Trainer trainer{model, MSELoss{}, Precision<FP16>{.init_scale = 512}, ClipGradNorm{}};

  for (const Rows& batch : batches) {
    trainer.step(batch);
    const double scale = trainer.mechanism<Precision<FP16>>().loss_scale();
    trainer.get<ClipGradNorm>().max_norm = scale > 1024 ? 1.0 : 0.5;
  }

  CHECK(trainer.get<ClipGradNorm>().max_norm == 0.5);
}

TEST_CASE("docs/extending.md: a clip policy that is made of two is as both in a recipe") {
  const Rows batch{at::randn({32, 16}), at::randn({32, 32})};
  auto moved = [&](const auto&... policies) {
    auto model = net();
    Trainer trainer{model, MSELoss{}, SGD{.lr = 1}, policies...};
    const Report report = trainer.step(batch);
    return std::pair{std::vector<at::Tensor>(model->parameters()), *report.grad_norm()};
  };
  const ClipGradNorm clip{.max_norm = 0.01};
  const auto made = moved(ScalesAndClips{.clips = clip}), both = moved(Scales{}, clip);
  CHECK(same_bits(made.first, both.first));
  CHECK(made.second == both.second);
  CHECK_FALSE(same_bits(made.first, moved(clip, Scales{}).first));
  auto recipe = [&](auto model, auto... more) {
    return Trainer{model, MSELoss{}, SGD{.lr = 1}, ScalesAndClips{.clips = clip}, more...};
  };
  check_policy::on_two_ranks<DDP>(net, recipe, std::vector{batch, batch});
}

template <bool clips>
std::string recipe_of() {
  using Clip = std::conditional_t<clips, ClipGradNorm, Without<axis::clip>>;
  Trainer<nn::Sequential, MSELoss, Clip> trainer{net()};
  return trainer.describe();
}
TEST_CASE("docs/extending.md: a policy that a program may leave out") {
  CHECK(contains(recipe_of<true>(), "ClipGradNorm"));
  CHECK(contains(recipe_of<false>(), "Without<clip>"));
}

}  // namespace test::check_policies
