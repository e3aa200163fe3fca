// Values of policies that change between steps: each is obeyed at the next step, or refused by
// name.
#include "test.hpp"

#include "between_steps.hpp"

namespace test::between_steps {

const std::vector<Group> groups = {{.match = named("0.*"), .lr = 0.02},
                                   {.match = named("3.bias"), .weight_decay = 0.3}};

using First = Recipe<AdamW, CosineAnnealingLR, CrossEntropyLoss, ClipGradNorm, EMA, Accumulate<>>;
TEST_CASE(
    "between steps: AdamW, CosineAnnealingLR, CrossEntropyLoss, ClipGradNorm, EMA, Accumulate") {
  CosineAnnealingLR cosine{.T_max = 9};
  Accumulate<> two{.microbatches = 2};
  const AdamW adamw{.lr = 0.1, .groups = groups};
  obeys<First>(
      classes, net, adamw,
      {[](AdamW& v) { v.lr = 0.2; }, [](AdamW& v) { v.betas[0] = 0.5; },
       [](AdamW& v) { v.betas[1] = 0.9; }, [](AdamW& v) { v.eps = 0.1; },
       [](AdamW& v) { v.weight_decay = 0.5; }, [](AdamW& v) { v.amsgrad = true; },
       [](AdamW& v) { v.maximize = true; }, [](AdamW& v) { v.groups[0].lr = 0.3; },
       [](AdamW& v) { v.groups[1].weight_decay.reset(); },
       [](AdamW& v) { v.groups[0].match = named("3.*"), v.groups[1].match = named("0.*"); }},
      cosine, two);
  auto no_parameter = [](AdamW& v) { v.groups[1].match = named("nowhere"); };
  refuses<First>(classes, adamw, no_parameter, "group 1 matches no parameter", cosine, two);
  refuses<First>(
      classes, adamw, [](AdamW& v) { v.weight_decay = INFINITY; }, "finite", cosine, two);
  obeys<First>(classes, net, cosine,
               {[](auto& v) { v.T_max = 4; }, [](auto& v) { v.eta_min = 0.05; },
                [](auto& v) { v.warmup_steps = 2; }},
               two);
  refuses<First>(classes, cosine, [](auto& v) { v.T_max = -4; }, "T_max", two);
  refuses<First>(classes, cosine, [](auto& v) { v.warmup_steps = -4; }, "warmup_steps is -4", two);
  obeys<First>(classes, net, CrossEntropyLoss{},
               {[](auto& v) { v.ignore_index = 1; }, [](auto& v) { v.label_smoothing = 0.5; },
                [](auto& v) { v.weight = at::arange(3) + 1.0; }, [](auto& v) { v.outputs = true; }},
               cosine, two);
  refuses<First>(
      classes, CrossEntropyLoss{}, [](auto& v) { v.label_smoothing = 2; }, "label_smoothing is 2",
      cosine, two);
  obeys<First>(classes, net, ClipGradNorm{}, {[](auto& v) { v.max_norm = 1e-3; }}, cosine, two,
               AdamW{.eps = 0.1});
  obeys<First>(classes, net, EMA{},
               {[](auto& v) { v.decay = 0.5; }, [](auto& v) { v.use_buffers = true; }}, cosine,
               two);
  obeys<First>(classes, net, EMA{.use_buffers = true}, {[](auto& v) { v.use_buffers = false; }},
               cosine, two);
  obeys<First>(classes, net, two, {[](auto& v) { v.microbatches = 3; }}, cosine);
}

using Clamped = Recipe<SGD, CrossEntropyLoss, ClipGradValue, SkipSpikes, SWA>;
TEST_CASE("between steps: ClipGradValue, SkipSpikes, SWA, and EMA's warmup") {
  const ClipGradValue clamp{.clip_value = 0.05};
  const SGD sgd{.lr = 0.5};
  obeys<Clamped>(classes, net, clamp, {[](auto& v) { v.clip_value = 1e-3; }}, sgd);
  refuses<Clamped>(classes, clamp, [](auto& v) { v.clip_value = -1; }, "clip_value is -1", sgd);
  obeys<Clamped>(classes, net, SWA{},
                 {[](auto& v) { v.start_step = 3; }, [](auto& v) { v.every_steps = 2; },
                  [](auto& v) { v.use_buffers = true; }},
                 sgd, clamp);
  refuses<Clamped>(classes, SWA{}, [](auto& v) { v.every_steps = 0; }, "every_steps 0", sgd, clamp);
  refuses<Clamped>(
      classes, SkipSpikes{}, [](auto& v) { v.window = 4; }, "window was changed", sgd, clamp);
  refuses<Clamped>(classes, SkipSpikes{}, [](auto& v) { v.zscore = 0; }, "zscore 0", sgd, clamp);
  const Accumulate<> two{.microbatches = 2};
  const CosineAnnealingLR cosine{.T_max = 9};
  obeys<First>(classes, net, EMA{}, {[](auto& v) { v.warmup = true; }}, two, cosine);
  refuses<First>(
      classes, EMA{}, [](auto& v) { v.from_initial_weights = true; }, "from_initial_weights was",
      two, cosine);
}

using Second = Recipe<Adam, LinearLR, MSELoss, GradNorm, Checkpoint<Segments<>>>;
TEST_CASE("between steps: Adam, LinearLR, MSELoss, GradNorm, Checkpoint<Segments<>>") {
  LinearLR linear{.total_iters = 5};
  obeys<Second>(numbers, net, Adam{.lr = 0.1},
                {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.betas = {0.5, 0.9}; },
                 [](auto& v) { v.eps = 0.1; }, [](auto& v) { v.weight_decay = 0.5; },
                 [](auto& v) { v.amsgrad = true; }, [](auto& v) { v.maximize = true; }},
                linear);
  obeys<Second>(numbers, net, linear,
                {[](auto& v) { v.start_factor = 0.9; }, [](auto& v) { v.end_factor = 3; },
                 [](auto& v) { v.total_iters = 2; }, [](auto& v) { v.warmup_steps = 3; }});
  refuses<Second>(numbers, linear, [](auto& v) { v.total_iters = 0; }, "total_iters");
  obeys<Second>(numbers, net, MSELoss{}, {[](auto& v) { v.outputs = true; }}, linear);
  Second trainer(net(), linear);
  auto norm_is_nan = [&] {
    trainer.step(numbers(0));
    auto hook =
        trainer.model()->parameters()[0].register_hook([](at::Tensor g) { return g * NAN; });
    bool skipped = trainer.step(numbers(1)).skipped();
    trainer.model()->parameters()[0].remove_hook(hook);
    return skipped;
  };
  trainer.get<GradNorm>().error_if_nonfinite = false;
  CHECK(norm_is_nan());
  trainer.get<Checkpoint<Segments<>>>().segments = 1;
  CHECK(contains(trainer.describe(), "segments of 4 units"));
  trainer.step(numbers(0));
  trainer.get<Checkpoint<Segments<>>>().segments = -1;
  CHECK_THROWS_AS(trainer.step(numbers(0)), BadValue);
}

using Third = Recipe<SGD, StepLR, BCEWithLogitsLoss, Checkpoint<Every<>>>;
TEST_CASE("between steps: SGD, StepLR, BCEWithLogitsLoss, Checkpoint<Every<>>") {
  StepLR step{.step_size = 9};
  Checkpoint<Every<>> every{.every = 2};
  obeys<Third>(numbers, net, SGD{.lr = 0.1, .momentum = 0.9},
               {[](auto& v) { v.lr = 0.2; }, [](auto& v) { v.momentum = 0; },
                [](auto& v) { v.dampening = 0.5; }, [](auto& v) { v.weight_decay = 0.5; },
                [](auto& v) { v.nesterov = true; }, [](auto& v) { v.maximize = true; }},
               step, every);
  obeys<Third>(numbers, net, SGD{.lr = 0.1}, {[](auto& v) { v.momentum = 0.5; }}, step, every);
  obeys<Third>(numbers, net, step,
               {[](auto& v) { v.step_size = 1; }, [](auto& v) { v.step_size = 1, v.gamma = 0.5; },
                [](auto& v) { v.warmup_steps = 5; }},
               every, SGD{.lr = 0.1});
  refuses<Third>(numbers, step, [](auto& v) { v.step_size = 0; }, "step_size", every);
  obeys<Third>(
      numbers, net, BCEWithLogitsLoss{},
      {[](auto& v) { v.weight = at::arange(3) + 1.0; },
       [](auto& v) { v.pos_weight = at::arange(3) + 1.0; }, [](auto& v) { v.outputs = true; }},
      step, every);
  refuses<Third>(numbers, every, [](auto& v) { v.every = 0; }, "every is 0", step);
}

}  // namespace test::between_steps
