// The optimizers equal PyTorch's in double precision; schedules equal their closed forms.

#include "test.hpp"

#include <ikebana/bridge/gradients.hpp>

#include "guarantees/guarantees.hpp"
#include "shapes.hpp"

namespace guarantees::optimizers {

/// Makes PyTorch's optimizer with each parameter in a group of its own, which `options(name)`
/// makes.
template <class Optimizer, class Options>
Optimizer by_pytorch(Shapes& model, Options&& options) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (auto& item : model->named_parameters()) {
    auto own = options(item.key());
    groups.emplace_back(Tensors{item.value()}, std::make_unique<decltype(own)>(own));
  }
  return Optimizer(groups, options(""));
}

struct Case {
  Plan plan = always;
  bool mixed = false;
  double sign = 1;  // the sign of what PyTorch minimizes
};

/// Compares both after each of forty steps.
template <class TorchOptimizer, class Policy, class Options>
void equals_pytorch(Policy policy, Options&& options, Case what = {}) {
  Shapes hand(at::kDouble, what.mixed), model(at::kDouble, what.mixed);
  auto optimizer = by_pytorch<TorchOptimizer>(hand, options);
  Trainer<Shapes, Policy, Pulls> trainer(model, policy, Pulls{.plan = what.plan});
  for (int s = 0; s < 40; ++s) {
    CAPTURE(s);
    auto all = hand->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (what.plan(i, s)) all[i].mutable_grad() = pull(all[i], i, s) * what.sign;
      else all[i].mutable_grad().reset();
    }
    optimizer.step();
    trainer.step(torch::ones({1}));
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      double bound = all[i].scalar_type() == at::kDouble ? 1e-12 : 1e-5;
      CHECK(test::worst_relative({model->parameters()[i]}, {all[i]}) <= bound);
    }
  }
}

/// All parameters have a gradient in the first step, and then each has one only in some steps.
/// Every parameter has its own step count.
bool some(std::size_t i, int s) {
  return s == 0 ? i != 2 : i == 0 || s % (static_cast<int>(i) + 1) == 1;
}

template <class Options>
auto same(Options options) {
  return [options](const std::string&) { return options; };
}
std::vector<Group> three_groups() {
  return {{.match = named("conv_*"), .lr = 0.2, .weight_decay = 0.3}, no_decay()};
}
template <class Options>
auto grouped(Options options) {
  return [options](const std::string& name) {
    Options own = options;
    if (name == "conv_weight") own.lr(0.2).weight_decay(0.3);
    else if (name != "linear_weight" && !name.empty()) own.weight_decay(0);
    return own;
  };
}
using Betas = std::tuple<double, double>;

double rate_at(auto schedule, std::int64_t step) {
  return Mechanism<decltype(schedule)>(schedule).rate(8.0, step);
}
void table(auto schedule, const std::vector<double>& rates) {
  for (std::size_t s = 0; s < rates.size(); ++s) {
    CAPTURE(s);
    CHECK(rate_at(schedule, static_cast<std::int64_t>(s)) ==
          doctest::Approx(rates[s]).epsilon(1e-14));
  }
}

TEST_CASE("AdamW and Adam equal PyTorch's in double precision") {
  using torch::optim::AdamOptions;
  using torch::optim::AdamWOptions;
  for (const Case& what : {Case{}, Case{.plan = some}, Case{.mixed = true}}) {
    for (bool amsgrad : {false, true}) {
      CAPTURE(amsgrad);
      equals_pytorch<torch::optim::AdamW>(AdamW{.lr = 0.05,
                                                .betas = {0.8, 0.95},
                                                .eps = 1e-6,
                                                .weight_decay = 0.1,
                                                .amsgrad = amsgrad},
                                          same(AdamWOptions(0.05)
                                                   .betas(Betas(0.8, 0.95))
                                                   .eps(1e-6)
                                                   .weight_decay(0.1)
                                                   .amsgrad(amsgrad)),
                                          what);
      equals_pytorch<torch::optim::Adam>(Adam{.lr = 0.05, .weight_decay = 0.1, .amsgrad = amsgrad},
                                         same(AdamOptions(0.05).weight_decay(0.1).amsgrad(amsgrad)),
                                         what);
    }
    equals_pytorch<torch::optim::AdamW>(AdamW{.groups = three_groups()},
                                        grouped(AdamWOptions(1e-3)), what);
    equals_pytorch<torch::optim::Adam>(Adam{.groups = three_groups()}, grouped(AdamOptions(1e-3)),
                                       what);
  }
}

TEST_CASE("SGD equals PyTorch's in double precision") {
  using torch::optim::SGDOptions;
  for (const Case& what : {Case{}, Case{.plan = some}, Case{.mixed = true}}) {
    equals_pytorch<torch::optim::SGD>(SGD{.lr = 0.1}, same(SGDOptions(0.1)), what);
    equals_pytorch<torch::optim::SGD>(SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
                                      same(SGDOptions(0.1).momentum(0.9).weight_decay(0.1)), what);
    equals_pytorch<torch::optim::SGD>(SGD{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
                                      same(SGDOptions(0.1).momentum(0.9).dampening(0.5)), what);
    equals_pytorch<torch::optim::SGD>(
        SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
        same(SGDOptions(0.1).momentum(0.9).weight_decay(0.1).nesterov(true)), what);
    equals_pytorch<torch::optim::SGD>(SGD{.lr = 0.1, .momentum = 0.5, .groups = three_groups()},
                                      grouped(SGDOptions(0.1).momentum(0.5)), what);
  }
}

TEST_CASE("maximize follows the gradient upwards") {
  Case up{.sign = -1};
  equals_pytorch<torch::optim::AdamW>(AdamW{.maximize = true}, same(torch::optim::AdamWOptions()),
                                      up);
  equals_pytorch<torch::optim::Adam>(Adam{.weight_decay = 0.1, .maximize = true},
                                     same(torch::optim::AdamOptions().weight_decay(0.1)), up);
  equals_pytorch<torch::optim::SGD>(
      SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .maximize = true},
      same(torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1)), up);
}

TEST_CASE("a value changed between steps takes effect from the next step on, as in PyTorch") {
  Shapes hand(at::kDouble), model(at::kDouble);
  auto options = torch::optim::SGDOptions(0.1).momentum(0).dampening(0.5).weight_decay(0.1);
  torch::optim::SGD optimizer(hand->parameters(), options);
  Trainer<Shapes, SGD, Pulls> trainer(model, SGD{.lr = 0.1, .dampening = 0.5, .weight_decay = 0.1});
  SGD& values = trainer.get<SGD>();
  auto& theirs = static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options());
  for (int s = 0; s < 24; ++s) {
    CAPTURE(s);
    double momentum = s % 12 < 4 ? 0 : 0.9, lr = s < 6 ? 0.1 : 0.05;
    values.momentum = momentum, values.lr = lr;
    theirs.momentum(momentum).lr(lr);
    auto all = hand->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].mutable_grad() = pull(all[i], i, s);
    optimizer.step();
    trainer.step(torch::ones({1}));
    CHECK(test::worst_relative(parameters_of(model), parameters_of(hand)) <= 1e-12);
  }
  Trainer<Shapes, AdamW, Pulls> adam{Shapes(at::kDouble)};
  for (int s = 0; s < 4; ++s) {
    adam.get<AdamW>().amsgrad = s % 2;
    CHECK_NOTHROW(adam.step(torch::ones({1})));
  }
  CHECK(adam.state().count("ikebana.AdamW.lonely.max_exp_avg_sq") == 1);
}

TEST_CASE("gradients of any strides update channels_last and contiguous parameters alike") {
  auto run = [](bool meddle) {
    Shapes model(at::kFloat);
    std::vector<bridge::PostAccumulateHook> hooks;
    for (const auto& p : model->parameters())
      if (meddle && p.dim() > 1)
        hooks.emplace_back(p, [](const at::Tensor& leaf) {
          auto& gradient = leaf.mutable_grad();
          gradient = gradient.transpose(0, 1).contiguous().transpose(0, 1);
        });
    Trainer<Shapes, AdamW, Pulls> trainer(model, AdamW{.lr = 0.05});
    for (int s = 0; s < 5; ++s) trainer.step(torch::ones({1}));
    CHECK(model->conv.is_contiguous(at::MemoryFormat::ChannelsLast));
    return parameters_of(model);
  };
  CHECK(test::same_bits(run(true), run(false)));
}

TEST_CASE("schedules equal their closed forms") {
  table(ConstantLR{}, {8, 8, 8});
  table(ConstantLR{.factor = 0.25, .total_iters = 3, .warmup_steps = 2}, {4, 8, 2, 2, 2, 8, 8});
  table(LinearLR{.start_factor = 0.25, .total_iters = 3}, {2, 4, 6, 8, 8});
  table(LinearLR{.start_factor = 1, .end_factor = 0, .total_iters = 4, .warmup_steps = 4},
        {2, 4, 6, 8, 8, 6, 4, 2, 0, 0});
  const double high = 4 + 2 * std::sqrt(2.0), low = 4 - 2 * std::sqrt(2.0);
  table(CosineAnnealingLR{.T_max = 4}, {8, high, 4, low, 0, low, 4, high, 8});
  table(CosineAnnealingLR{.T_max = 2, .eta_min = 2, .warmup_steps = 4},
        {2, 4, 6, 8, 8, 5, 2, 5, 8});
}

TEST_CASE("a schedule changes the rate of every group and the report shows it") {
  Shapes hand(at::kDouble), model(at::kDouble);
  auto optimizer = by_pytorch<torch::optim::AdamW>(hand, grouped(torch::optim::AdamWOptions(0.1)));
  LinearLR schedule{.start_factor = 1, .end_factor = 0, .total_iters = 10, .warmup_steps = 3};
  Trainer<Shapes, AdamW, Pulls, LinearLR> trainer(model, AdamW{.lr = 0.1, .groups = three_groups()},
                                                  schedule);
  for (int s = 0; s < 15; ++s) {
    double factor = rate_at(schedule, s) / 8;
    auto all = hand->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].mutable_grad() = pull(all[i], i, s);
      optimizer.param_groups()[i].options().set_lr((i == 0 ? 0.2 : 0.1) * factor);
    }
    optimizer.step();
    CHECK(trainer.step(torch::ones({1})).learning_rate ==
          doctest::Approx(0.1 * factor).epsilon(1e-14));
    CHECK(test::worst_relative(parameters_of(model), parameters_of(hand)) <= 1e-12);
  }
}

TEST_CASE("a schedule counts attempts, including skipped steps") {
  LinearLR schedule{.start_factor = 1, .end_factor = 0, .total_iters = 20};
  Trainer<Shapes, SGD, Pulls, LinearLR, Precision<FP16>> trainer(
      Shapes(at::kDouble, /*mixed=*/true), SGD{.lr = 8}, schedule,
      Precision<FP16>{.init_scale = 3e38, .growth_interval = 3});
  int skipped = 0;
  for (int s = 0; s < 20; ++s) {
    auto report = trainer.step(torch::ones({1}));
    skipped += report.skipped();
    CHECK(report.learning_rate == doctest::Approx(rate_at(schedule, s)).epsilon(1e-14));
  }
  CHECK(skipped > 2);
  CHECK(skipped < 18);
}

}  // namespace guarantees::optimizers
