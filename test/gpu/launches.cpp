// Tests that a step launches only three operators and a copy more than the shortest loop by hand,
// which does not check whether the loss and the norm are finite.
#include <map>

#include "guarantees.hpp"
#include "simulated.hpp"

namespace gpu::launches {

namespace nn = torch::nn;

constexpr std::int64_t classes = 6;

struct MLPImpl : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return last(at::gelu(first(x))); }
  nn::Linear first = register_module("first", nn::Linear(8, 8));
  nn::Linear last = register_module("last", nn::Linear(8, classes));
};
TORCH_MODULE(MLP);

struct Batch {
  at::Tensor input, target;
};
Batch batch() { return {at::ones({4, 8}).to(device()), at::arange(4, at::kLong).to(device())}; }
/// The sum that the objective of the recipe computes, with a count that the host knows.
struct Counted {
  template <class Run>
  Loss operator()(Run& run, MLP& model, const Batch& batch) const {
    const auto logits = run(model, batch.input);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
};

/// Updates the parameters of a model as a loop by hand does.
struct Hand {
  enum class Optimizer { AdamW, SGD };
  MLP model = MLP();
  Optimizer optimizer = Optimizer::AdamW;
  bool clips = false, bf16 = false;
  std::vector<at::Tensor> first = {}, second = {}, steps = {};

  void begin() {
    model->to(device());
    const auto step = at::zeros({}, device());
    for (const auto& p : model->parameters())
      first.push_back(at::zeros_like(p)), second.push_back(at::zeros_like(p)),
          steps.push_back(step);
  }
  at::Tensor loss(const Batch& batch) {
    const ikebana::bridge::AutocastScope autocast(device().type(),
                                                  bf16 ? at::kBFloat16 : at::ScalarType::Undefined);
    return at::cross_entropy_loss(model(batch.input), batch.target);
  }
  void step(const Batch& batch) {
    loss(batch).backward();
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters = model->parameters(), gradients;
    for (const auto& p : parameters) gradients.push_back(p.grad());
    std::optional<at::Tensor> divisor;
    if (clips) {
      const auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
      divisor = ((norm + 1e-6) / 1.0).clamp_min(1);
    }
    if (optimizer == Optimizer::AdamW) {
      steps[0].add_(1);
      at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 1e-3, 0.9, 0.999, 1e-2,
                        1e-8, false, false, divisor, {});
    } else {
      at::_fused_sgd_(parameters, gradients, first, 0, 0.9, 1e-2, 0, false, false, false, divisor,
                      {});
    }
    for (auto& p : parameters) p.mutable_grad().reset();
  }
};

using Names = std::map<std::string, int>;

/// Counts how often a step launches each operator, after some steps that make state and check
/// counts.
template <class Step>
Names launched(const Step& step) {
  for (int i = 0; i < 3; ++i) step();
  const simulated::Launches launches;
  step();
  Names names;
  for (const auto& name : launches.names()) ++names[name];
  return names;
}
/// Returns what a step of the recipe launches, less what the loop by hand launches.
template <class... Policies>
Names surplus(Hand hand, const Policies&... policies) {
  MLP model;
  model->to(device());
  Trainer trainer{model, policies...};
  hand.begin();
  const auto data = batch();
  Names difference = launched([&] { trainer.step(data); });
  for (const auto& [name, count] : launched([&] { hand.step(data); })) difference[name] -= count;
  std::erase_if(difference, [](const auto& item) { return item.second == 0; });
  return difference;
}
/// The flag is set to 0 and then by what is not finite, it is copied to the host, and a step that
/// it rejects does not count.
const Names check = {{"aten::zero_", 1},
                     {"aten::_amp_foreach_non_finite_check_and_unscale_", 1},
                     {"copy_", 1},
                     {"aten::sub", 1}};
Names with(Names names, const Names& more) {
  for (const auto& [name, count] : more) names[name] += count;
  return names;
}

TEST_CASE("a step launches three operators and a copy more than the loop by hand") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device counts what is launched");
  const Hand adamw, bf16{.bf16 = true}, clipped{.clips = true, .bf16 = true},
      sgd{.optimizer = Hand::Optimizer::SGD};
  const SGD momentum{.lr = 1e-2, .momentum = 0.9};
  CHECK(surplus(adamw, Counted{}, AdamW{}) == check);
  CHECK(surplus(bf16, Counted{}, AdamW{}, Precision<BF16>{}) == check);
  CHECK(surplus(clipped, Counted{}, AdamW{}, Precision<BF16>{}, ClipGradNorm{}) == check);
  CHECK(surplus(clipped, Counted{}, AdamW{}, Precision<BF16>{}, ClipGradNorm{},
                StepLR{.step_size = 2}) == check);
  CHECK(surplus(clipped, Counted{}, AdamW{}, Precision<BF16>{}, ClipGradNorm{}, GradNorm{}) ==
        check);
  Names skips = check;  // two numbers, two flags: only one of them is an error
  for (const char* name : {"aten::zero_", "aten::_amp_foreach_non_finite_check_and_unscale_"})
    ++skips[name];
  skips["aten::maximum"] = 1;
  CHECK(surplus(clipped, Counted{}, AdamW{}, Precision<BF16>{},
                ClipGradNorm{.error_if_nonfinite = false}) == skips);
  // The optimizers of the library count steps, which SGD by hand need not.
  CHECK(surplus(sgd, Counted{}, momentum) == with(check, {{"aten::add", 1}}));
}
TEST_CASE("an objective whose count only the device knows launches no operator for it") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device counts what is launched");
  const Hand clipped{.clips = true, .bf16 = true};
  // Backward starts with 1 / count, instead of a number that is written to the device.
  const Names counted = with(check, {{"aten::div", 1}, {"aten::fill_", -1}});
  CHECK(surplus({}, CrossEntropyLoss{}, AdamW{}) == counted);
  CHECK(surplus(clipped, CrossEntropyLoss{}, AdamW{}, Precision<BF16>{}, ClipGradNorm{}) ==
        counted);
}
TEST_CASE("the count that the sum's operator has counted is that of the targets") {
  const auto losses = [](c10::Device where, const auto& objective, const auto&... policies) {
    torch::manual_seed(4);
    MLP model;
    model->to(where);
    Trainer trainer{model, objective, AdamW{}, policies...};
    std::vector<double> all;
    for (std::int64_t i = 0; i < 4; ++i) {
      auto target = at::arange(5, at::kLong);
      target.narrow(0, 0, i).fill_(-100);
      const auto report = trainer.step(Batch{at::arange(40, at::kFloat).view({5, 8}) / 40, target});
      CHECK(report.count() == 5.0 - double(i));
      all.push_back(report.loss());
    }
    return all;
  };
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-2));
  };
  const CrossEntropyLoss each, smoothed{.label_smoothing = 0.1};
  near(losses(device(), each), losses(at::kCPU, each));
  near(losses(device(), smoothed), losses(at::kCPU, smoothed));
  near(losses(device(), each, Accumulate<2>{}), losses(at::kCPU, each, Accumulate<2>{}));
  near(losses(device(), each, Precision<BF16True>{}),
       losses(at::kCPU, each, Precision<BF16True>{}));
}
Tensors values_of(const MLP& model) {
  Tensors all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().cpu());
  return all;
}
TEST_CASE("a norm and a loss that are not finite are one error, of the loss, in a later step") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  MLP model;
  model->to(device());
  double factor = 1;
  const auto objective = [&](auto& run, MLP& m, const Batch& b) -> Loss {
    Loss loss = Counted()(run, m, b);
    loss.sum = loss.sum * factor;
    return loss;
  };
  Trainer trainer{model, objective, AdamW{}, ClipGradNorm{}};
  const auto data = batch();
  const auto error_of = [&](double f) {
    trainer.step(data);
    factor = f;
    const auto before = values_of(model);
    const Report broken = trainer.step(data);
    CHECK(broken.skipped());
    CHECK(test::same_bits(values_of(model), before));
    factor = 1;
    std::string text;
    for (int i = 0; i < 3; ++i) text += test::message_of<NonFinite>([&] { trainer.step(data); });
    return text;
  };
  const auto of_loss = error_of(std::nan(""));
  CHECK(test::contains(of_loss, "the loss is not finite"));
  CHECK_FALSE(test::contains(of_loss, "the norm"));
  const auto of_norm = error_of(1e37);  // the loss is finite, its gradients' squares are not
  CHECK(test::contains(of_norm, "ClipGradNorm: the norm of the gradients is not finite"));
  CHECK_FALSE(test::contains(of_norm, "the loss is not"));
}

}  // namespace gpu::launches
