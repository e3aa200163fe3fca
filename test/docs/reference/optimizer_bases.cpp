// Examples of the reference: optimizers of one's own on the bases that the library's optimizers
// have.
#include "policies.hpp"

// example: GroupedOptimizer, Bucket, GroupNumbers, Slot
struct HeavyBall {  // by LibTorch's fused operator
  using axis = ikebana::axis::optimizer;
  double lr = 0.1, weight_decay = 0, momentum = 0.9;
  std::vector<ikebana::Group> groups = {};
};
template <>
struct ikebana::Mechanism<HeavyBall> : ikebana::GroupedOptimizer<HeavyBall> {
  explicit Mechanism(HeavyBall v) : GroupedOptimizer(v, {Slot{"momentum_buffer"}}) {
    rate_is_number_ = true;  // `update` takes the lr by `with_lr`
    check_rate();
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    prepare_buckets(masters, gradients, rate, /*state_slots=*/1);
    keep_if_asked();
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    for (auto ready = ready_buckets(gradients); const Bucket& b : ready) {
      const GroupNumbers& n = b.numbers;
      b.with_lr([&](const auto& lr) {
        at::_fused_sgd_(b.parameters, b.gradients, b.state[0], n.weight_decay, n.momentum, lr,
                        /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, b.first_step,
                        ready.divisor, ready.found_inf);
      });
    }
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }
};
// end

// example: PerParameterOptimizer, ParameterUpdate, Scratch
struct SignDescent {  // by operators, one parameter after the other
  using axis = ikebana::axis::optimizer;
  double lr = 1e-3;
  std::vector<ikebana::Group> groups = {};
};
template <>
struct ikebana::Mechanism<SignDescent> : ikebana::PerParameterOptimizer<SignDescent> {
  explicit Mechanism(SignDescent v) : PerParameterOptimizer(v, {}) {
    by_operators_ = true;  // they may throw: the update is copied before, and undone
    check_rate();
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    prepare_each(masters, gradients, rate, /*state_slots=*/0,
                 [](const at::Tensor& p, const at::Tensor&) {
                   return Scratch::bytes(p.numel(), p.scalar_type());
                 });
  }
  void update(const Masters&, StepGradients& gradients) {
    update_each(gradients, [](const ParameterUpdate& update) {
      at::Tensor sign = update.scratch.like(update.parameter());
      at::sign_out(sign, update.gradient());
      update.with_lr_and_step(
          [&](const auto& lr, const auto&) { update.parameter().sub_(sign.mul_(lr)); });
    });
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 0); }
};
// end

namespace test::reference::optimizer_bases {

/// The weights after three steps by an optimizer.
template <class Optimizer>
Tensors trained(Small small, const Optimizer& optimizer) {
  Trainer trainer{small.model, CrossEntropyLoss{}, optimizer};
  for (int i = 0; i < 3; ++i) trainer.step(small.batch);
  Tensors weights;
  for (const at::Tensor& p : small.model->parameters()) weights.push_back(p.detach().clone());
  return weights;
}

TEST_CASE_FIXTURE(Small, "reference: an optimizer by a fused operator") {
  const Group own{.match = named("2.*"), .lr = 0.05, .momentum = 0.5};
  CHECK(same_bits(trained({}, HeavyBall{.groups = {own}}),
                  trained({}, SGD{.lr = 0.1, .momentum = 0.9, .groups = {own}})));
}

TEST_CASE_FIXTURE(Small, "reference: an optimizer by operators, one parameter after the other") {
  Trainer trainer{model, CrossEntropyLoss{}, SignDescent{}, ClipGradNorm{}};
  trainer.step(batch);
  CHECK(change() == doctest::Approx(1e-3));
}

}  // namespace test::reference::optimizer_bases
