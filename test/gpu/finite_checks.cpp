// Tests what happens if a loss on a device is not finite: to whom it is reported, and when.
#include "guarantees.hpp"

namespace gpu::finite_checks {

namespace nn = torch::nn;

/// A user's own policy that keeps what each step reports of its gradients.
struct Told {
  using axis = ikebana::axis::clip;
  std::vector<at::Tensor>* flags;
};
/// The sum of a linear layer's outputs times `factor`, of which `sum` is the memory.
struct Scaled {
  double* factor;
  at::Tensor* sum;

  template <class Run>
  Loss operator()(Run& run, nn::Linear& model, const at::Tensor& x) const {
    const at::Tensor loss = run(model, x).sum() * *factor;
    *sum = loss.detach();
    return {loss, x.size(0)};
  }
};

}  // namespace gpu::finite_checks

template <>
struct ikebana::Mechanism<gpu::finite_checks::Told> : ikebana::ClipHooks {
  gpu::finite_checks::Told values;
  explicit Mechanism(gpu::finite_checks::Told v) : values(v) {}
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, detail::DeferredCheck&) {
    const at::Tensor& flag = gradients.found_inf;
    values.flags->push_back(flag.defined() ? flag.clone() : at::zeros({}, gpu::device()));
  }
};

namespace gpu::finite_checks {

TEST_CASE("a policy of a user's own is told that the loss is not finite") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  nn::Linear model(3, 2);
  model->to(device());
  double factor = 1;
  at::Tensor sum;
  std::vector<at::Tensor> flags;
  Trainer trainer{model, Scaled{&factor, &sum}, AdamW{}, Told{&flags}};
  const at::Tensor x = at::ones({4, 3});
  trainer.step(x);
  factor = std::nan("");
  trainer.step(x);
  REQUIRE(flags.size() == 2);
  CHECK(flags[0].item<float>() == 0);
  CHECK(flags[1].item<float>() == 1);
}
TEST_CASE("a loss that was not finite is an error, also where its number was written over") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  nn::Linear model(3, 2);
  model->to(device());
  double factor = std::nan("");
  at::Tensor sum;
  Trainer trainer{model, Scaled{&factor, &sum}, AdamW{}};
  const at::Tensor x = at::ones({4, 3});
  trainer.step(x);
  sum.zero_();
  factor = 1;
  std::string text;
  for (int i = 0; i < 3; ++i) text += test::message_of<NonFinite>([&] { trainer.step(x); });
  CHECK(test::contains(text, "the loss is not finite"));
}

}  // namespace gpu::finite_checks
