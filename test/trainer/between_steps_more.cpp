// Tests values that change between steps, of the other optimizers, schedules, precisions and
// checkpoints.
#include "test.hpp"

#include "between_steps.hpp"

namespace test::between_steps {

using Fourth = Recipe<Adagrad, ConstantLR, KLDivLoss, Checkpoint<Only<>>>;
TEST_CASE("between steps: Adagrad, ConstantLR, KLDivLoss, Checkpoint<Only<>>") {
  Checkpoint<Only<>> only{.match = [](const Unit& unit) { return unit.name == "0"; }};
  ConstantLR constant{.factor = 0.5, .total_iters = 9};
  const Adagrad adagrad{.lr = 0.1};
  obeys<Fourth>(numbers, net, adagrad,
                {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.lr_decay = 0.5; },
                 [](auto& v) { v.weight_decay = 0.5; }, [](auto& v) { v.eps = 0.5; },
                 [](auto& v) { v.maximize = true; }},
                constant, only);
  refuses<Fourth>(
      numbers, adagrad, [](auto& v) { v.initial_accumulator_value = 1; },
      "Adagrad: initial_accumulator_value was changed", only);
  obeys<Fourth>(numbers, net, constant,
                {[](auto& v) { v.factor = 2; }, [](auto& v) { v.total_iters = 0; },
                 [](auto& v) { v.warmup_steps = 4; }},
                only);
  obeys<Fourth>(numbers, net, KLDivLoss{},
                {[](auto& v) { v.log_target = true; }, [](auto& v) { v.outputs = true; }}, only);
  refuses<Fourth>(
      numbers, only, [](auto& v) { v.match = [](const Unit&) { return true; }; },
      "Checkpoint<Only<>>: match was changed");
}

using Fifth = Recipe<Adafactor, WarmupStableDecayLR, CrossEntropyLoss, Precision<BF16True>, On>;
TEST_CASE("between steps: Adafactor, WarmupStableDecayLR, Precision<BF16True>, On") {
  WarmupStableDecayLR decay{.stable_steps = 1, .decay_steps = 4};
  On cpu{at::kCPU};
  obeys<Fifth>(classes, net, Adafactor{.lr = 0.1},
               {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.beta2_decay = -0.1; },
                [](auto& v) { v.eps = {0.1, 0.1}; }, [](auto& v) { v.d = 5; },
                [](auto& v) { v.weight_decay = 0.5; }, [](auto& v) { v.maximize = true; }},
               decay, cpu);
  obeys<Fifth>(classes, net, decay,
               {[](auto& v) { v.warmup_steps = 5; }, [](auto& v) { v.stable_steps = 5; },
                [](auto& v) { v.decay_steps = 2; }, [](auto& v) { v.decay = DecayForm::Linear; },
                [](auto& v) { v.eta_min = 0.5; }},
               cpu, Adafactor{.lr = 0.1});
  obeys<Fifth>(classes, net, Precision<BF16True>{}, {[](auto& v) { v.seed = 5; }}, decay, cpu,
               Adafactor{.lr = 0.1});
  refuses<Fifth>(
      classes, Precision<BF16True>{}, [](auto& v) { v.keep_fp32 = two_dimensional; },
      "keep_fp32 was changed", decay, cpu);
  refuses<Fifth>(
      classes, cpu, [](auto& v) { v.device = c10::Device(at::kCPU, 0); }, "On: device was changed",
      decay);
}

using Sixth = Recipe<Lion, LambdaLR, CrossEntropyLoss, Precision<FP16>, Checkpoint<Selective>>;
TEST_CASE("between steps: Lion, LambdaLR, Precision<FP16>, Checkpoint<Selective>") {
  LambdaLR same{.lr_lambda = [](std::int64_t) { return 1.0; }};
  obeys<Sixth>(classes, net, Lion{.lr = 0.1},
               {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.betas = {0.1, 0.2}; },
                [](auto& v) { v.weight_decay = 0.5; }, [](auto& v) { v.maximize = true; }},
               same);
  obeys<Sixth>(classes, net, same,
               {[](auto& v) { v.lr_lambda = [](std::int64_t) { return 0.5; }; },
                [](auto& v) { v.warmup_steps = 5; }});
  refuses<Sixth>(classes, same, [](auto& v) { v.lr_lambda = nullptr; }, "lr_lambda");
  refuses<Sixth>(
      classes, Precision<FP16>{}, [](auto& v) { v.init_scale = 2; },
      "Precision<FP16>: init_scale was changed", same);
  refuses<Sixth>(
      classes, Checkpoint<Selective>{}, [](auto& v) { v.keep = nullptr; }, "keep is empty", same);
  Sixth trainer(net(), same);
  auto scale_after = [&](auto change) {
    change(trainer.get<Precision<FP16>>());
    trainer.step(classes(0));
    return trainer.mechanism<Precision<FP16>>().loss_scale();
  };
  CHECK(scale_after([](auto& v) { v.growth_interval = 1; }) == 131072);
  CHECK(scale_after([](auto& v) { v.growth_factor = 4; }) == 524288);
  CHECK(scale_after([](auto& v) { v.growth_factor = 1, v.min_scale = 1e6; }) == 1e6);
}

using Seventh = Recipe<AdamW8bit, ReduceLROnPlateau, CrossEntropyLoss, Freeze<>>;
TEST_CASE("between steps: AdamW8bit, ReduceLROnPlateau, Freeze<>") {
  Freeze<> bias{.match = named("3.bias")};
  obeys<Seventh>(classes, net, AdamW8bit{.lr = 0.1},
                 {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.betas = {0.5, 0.9}; },
                  [](auto& v) { v.eps = 0.1; }, [](auto& v) { v.weight_decay = 0.5; },
                  [](auto& v) { v.maximize = true; }},
                 bias);
  refuses<Seventh>(classes, AdamW8bit{}, [](auto& v) { v.block_size = 64; }, "block_size", bias);
  refuses<Seventh>(classes, AdamW8bit{}, [](auto& v) { v.min_8bit_size = 64; }, "min_8bit", bias);
  refuses<Seventh>(
      classes, bias, [](auto& v) { v.match = named("3.weight"); }, "Freeze<>: match was changed");
  refuses<Seventh>(
      classes, ReduceLROnPlateau{}, [](auto& v) { v.mode = v.max; },
      "ReduceLROnPlateau: mode was changed", bias);
  refuses<Seventh>(classes, ReduceLROnPlateau{}, [](auto& v) { v.factor = 1; }, "factor", bias);
  auto rate_after = [&](auto change) {  // 1, and then two epochs that improve by a tenth
    Seventh trainer(net(), bias, AdamW8bit{.lr = 1}, ReduceLROnPlateau{.patience = 1});
    auto& mechanism = trainer.mechanism<ReduceLROnPlateau>();
    mechanism.step(1);
    change(trainer.get<ReduceLROnPlateau>());
    for (double metric : {0.9, 0.9}) mechanism.step(metric);
    return trainer.step(classes(0)).learning_rate;
  };
  CHECK(rate_after([](auto&) {}) == 1);
  CHECK(rate_after([](auto& v) { v.patience = 0; }) == doctest::Approx(0.1));
  CHECK(rate_after([](auto& v) { v.patience = 0, v.factor = 0.5; }) == 0.5);
  CHECK(rate_after([](auto& v) { v.threshold = 0.2; }) == doctest::Approx(0.1));
  CHECK(rate_after([](auto& v) { v.threshold = 0.2, v.min_lr = 0.3; }) == 0.3);
  CHECK(rate_after([](auto& v) { v.threshold = 0.2, v.eps = 2; }) == 1);
  CHECK(rate_after([](auto& v) { v.patience = 0, v.warmup_steps = 2; }) == doctest::Approx(0.05));
}

using Eighth = Recipe<Muon, CrossEntropyLoss, Precision<BF16Weights>>;
TEST_CASE("between steps: Muon, Precision<BF16Weights>") {
  obeys<Eighth>(
      classes, net, Muon{.lr = 0.1, .otherwise = AdamW{.groups = {no_decay()}}},
      {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.weight_decay = 0.5; },
       [](auto& v) { v.momentum = 0.1; }, [](auto& v) { v.nesterov = false; },
       [](auto& v) { v.ns_coefficients[0] = 2; }, [](auto& v) { v.ns_steps = 1; },
       [](auto& v) { v.eps = 10; }, [](auto& v) { v.adjust_lr_fn = AdjustLR::MatchRMSAdamW; },
       [](auto& v) { v.otherwise.lr = 0.2; }, [](auto& v) { v.otherwise.eps = 1; },
       [](auto& v) { v.otherwise.groups[0].lr = 0.5; }});
  refuses<Eighth>(
      classes, Muon{}, [](auto& v) { v.match = named("0.weight"); }, "`match` was changed");
  refuses<Eighth>(
      classes, Precision<BF16Weights>{}, [](auto& v) { v.keep_fp32 = two_dimensional; },
      "keep_fp32 was changed");
}

using Ninth = Recipe<SparseAdam, CrossEntropyLoss>;
using Tenth = Recipe<InBackward<AdamW>, CrossEntropyLoss>;
TEST_CASE("between steps: SparseAdam, InBackward") {
  obeys<Ninth>(words, table, SparseAdam{.lr = 0.1},
               {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.betas = {0.5, 0.9}; },
                [](auto& v) { v.eps = 0.1; }, [](auto& v) { v.maximize = true; },
                [](auto& v) { v.otherwise.lr = 0.2; }, [](auto& v) { v.otherwise.eps = 1; }});
  InBackward<AdamW> inside{AdamW{.lr = 0.1, .groups = {no_decay()}}};
  obeys<Tenth>(classes, net, inside,
               {[](auto& v) { v.optimizer.lr = 0.2; }, [](auto& v) { v.optimizer.eps = 0.1; },
                [](auto& v) { v.optimizer.groups[0].weight_decay = 0.5; },
                [](auto& v) {
                  v.optimizer.groups = {no_decay(named("*bias", "1.weight"))};
                  v.optimizer.lr = 0.2;
                }});
  refuses<Tenth>(
      classes, inside, [](auto& v) { v.optimizer.groups[0].match = named("0.*"); },
      "InBackward: the group of a parameter was changed");
  refuses<Tenth>(
      classes, inside, [](auto& v) { v.optimizer.groups.push_back(no_decay()); },
      "InBackward: the group of a parameter was changed");
}

}  // namespace test::between_steps
