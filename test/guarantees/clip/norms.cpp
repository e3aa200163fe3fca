// Norms of gradients: what is not finite updates nothing, or is named by the error of the next
// step.
#include "test.hpp"

#include "guarantees/guarantees.hpp"

namespace guarantees::norms {

constexpr std::int64_t width = 4, classes = 3;

torch::nn::Sequential net() {
  return seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(width, 6), torch::nn::Tanh(),
                                 torch::nn::Linear(6, classes));
  });
}
std::vector<Rows> batches() { return class_batches(3, 9, width, classes); }
/// The loss of this batch is finite, and its gradient is NaN.
Rows poisoned(Rows batch) {
  batch.input = batch.input.clone();
  batch.input[0][0] = 1e30;
  return batch;
}
struct Sum {
  template <class Run>
  Loss operator()(Run& run, torch::nn::Sequential& model, const Rows& batch) {
    const bool is_poisoned = batch.input[0][0].item<float>() > 1e29f;
    at::Tensor y = run(model, is_poisoned ? at::zeros_like(batch.input) : batch.input);
    at::Tensor sum = at::cross_entropy_loss(y, batch.target, {}, at::Reduction::Sum);
    if (is_poisoned) sum = sum + (model->parameters()[2] * 0).sum().sqrt();
    return {sum, batch.target.numel()};
  }
};
/// Returns the state without what also continues in a step that is skipped.
template <class T>
StateDict unmoved(T& trainer) {
  auto state = trainer.state();
  state.erase("ikebana.trainer.step");
  return state;
}

template <class Norm>
void checks_the_norm() {
  auto data = batches();
  Trainer<torch::nn::Sequential, AdamW, Sum, Norm> strict(net());
  Trainer<torch::nn::Sequential, AdamW, Sum, Norm> lenient(net(),
                                                           Norm{.error_if_nonfinite = false});
  strict.step(data[0]), lenient.step(data[0]);
  auto before = unmoved(strict), same = unmoved(lenient);
  auto text = test::message_of<NonFinite>([&] { strict.step(poisoned(data[1])); });
  CHECK(test::contains(text, ikebana::detail::type_name<Norm>() + ": the norm"));
  CHECK(test::contains(text, "not finite, nor is the gradient of `2.weight`; nothing was"));
  CHECK(same_state(unmoved(strict), before));
  CHECK(strict.steps() == 1);
  auto report = lenient.step(poisoned(data[1]));
  CHECK(report.skipped());
  CHECK_FALSE(std::isfinite(*report.grad_norm()));
  CHECK(std::isfinite(report.loss()));
  CHECK(same_state(unmoved(lenient), same));
  CHECK(lenient.steps() == 2);
  CHECK_FALSE(strict.step(data[2]).skipped());
  CHECK_FALSE(lenient.step(data[2]).skipped());
}

TEST_CASE("a norm that is not finite updates nothing: an error, or a skipped step") {
  checks_the_norm<ClipGradNorm>();
  checks_the_norm<GradNorm>();
}

TEST_CASE("GradNorm reports the norm of ClipGradNorm and changes no bit") {
  using Net = torch::nn::Sequential;
  auto data = batches();
  const ClipGradNorm tight{.max_norm = 1e-2};
  Trainer<Net, SGD, Sum> plain(net());
  Trainer<Net, SGD, Sum, GradNorm> reported(net());
  Trainer<Net, SGD, Sum, ClipGradNorm> clipped(net(), tight);
  Trainer<Net, SGD, Sum, GradNorm, ClipGradNorm> first(net(), tight);
  Trainer<Net, SGD, Sum, ClipGradNorm, GradNorm> last(net(), tight);
  const double norm = *clipped.step(data[0]).grad_norm();
  CHECK(norm > tight.max_norm);
  plain.step(data[0]);
  CHECK(reported.step(data[0]).grad_norm() == norm);
  CHECK(first.step(data[0]).grad_norm() == norm);  // before clipping, in either order
  CHECK(last.step(data[0]).grad_norm() == norm);
  auto same = [](auto& a, auto& b) {
    return test::same_bits(parameters_of(a.model()), parameters_of(b.model()));
  };
  CHECK(same(reported, plain));
  CHECK_FALSE(same(clipped, plain));
  CHECK(same(first, clipped));
  CHECK(same(last, clipped));
}

TEST_CASE("a gradient that is not finite with a finite loss: the next step's error says so") {
  auto data = batches();
  Trainer<torch::nn::Sequential, AdamW, Sum> trainer(net());
  auto nan = data[1];
  nan.input = nan.input * NAN;
  auto text = test::message_of<NonFinite>([&] { trainer.step(nan); });
  CHECK(test::contains(text, "the loss is not finite; nothing was updated. All parameters are "));
  trainer.step(poisoned(data[0]));
  text = test::message_of<NonFinite>([&] { trainer.step(data[1]); });
  CHECK(test::contains(text, "The parameter `2.weight` is not finite either"));
  CHECK(test::contains(text, "add GradNorm or ClipGradNorm"));
}

}  // namespace guarantees::norms
