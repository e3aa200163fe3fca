// Pieces of the library without a trainer have the bits of their policies, and refuse calls out of
// turn.
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/optimizer/muon.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>

#include "own_loop.hpp"

namespace test::own_loop {

/// Clips as a mechanism on the axis clip does in a step of a trainer with no other divisor.
template <class Policy>
void clip_by_policy(Net& model, const Policy& policy) {
  Mechanism<Policy> clip(policy);
  const OneRank ranks;
  StepGradients gradients;
  gradients.collect(model->parameters());
  clip.clip(gradients, ranks);
  gradients.apply_divisor();
}

/// Trains with a call of `before(model)` before each update.
template <class Before>
Tensors trained_with(const Before& before) {
  return after(
      [&](Net& model, const auto& batches) { by_hand(model, batches, plain_loss, before); });
}

TEST_CASE("pieces: a checkpointed call that keeps the outputs of costly operators") {
  const Tensors here = after([](Net& model, const auto& batches) {
    pieces::Checkpointed block(model->block, Checkpoint<Selective>{});
    const auto loss = [&](Net& net, const Rows& batch) {
      return cross_entropy(net->head(block(batch.input)), batch.target);
    };
    by_hand(model, batches, loss, nothing);
    CHECK(model->block->forwards == 12);
    const at::NoGradGuard no_grad;
    CHECK_FALSE(block(batches[0].input).requires_grad());
  });
  CHECK(same_bits(here, trained_with(nothing)));
}

TEST_CASE("pieces: clipping by norm, and by value") {
  const ClipGradNorm by_norm{.max_norm = 0.05};
  CHECK(
      same_bits(trained_with([&](Net& net) { pieces::clip_gradients(net->parameters(), by_norm); }),
                trained_with([&](Net& net) { clip_by_policy(net, by_norm); })));
  const ClipGradValue by_value{.clip_value = 0.01};
  CHECK(same_bits(
      trained_with([&](Net& net) { pieces::clip_gradients(net->parameters(), by_value); }),
      trained_with([](Net& net) { nn::utils::clip_grad_value_(net->parameters(), 0.01); })));
}

TEST_CASE("pieces: clipping of sparse gradients, and of one that is not finite") {
  nn::Embedding rows(nn::EmbeddingOptions(10, 3).sparse(true));
  const at::Tensor words = at::tensor({1, 2, 1});
  (rows(words).sum() * 10).backward();
  const at::Tensor before = rows->weight.grad().to_dense();
  const at::Tensor norm = pieces::clip_gradients(rows->parameters(), ClipGradNorm{.max_norm = 1});
  CHECK(norm.item<double>() == doctest::Approx(before.norm().item<double>()));
  CHECK(rows->weight.grad().is_sparse());
  CHECK(rows->weight.grad().to_dense().norm().item<double>() == doctest::Approx(1));

  rows->weight.mutable_grad() = at::full({10, 3}, INFINITY);
  CHECK_THROWS_AS(pieces::clip_gradients(rows->parameters(), ClipGradNorm{}), NonFinite);
  CHECK(rows->weight.grad().isinf().all().item<bool>());
  const ClipGradNorm lenient{.error_if_nonfinite = false};
  CHECK(pieces::clip_gradients(rows->parameters(), lenient).isinf().item<bool>());
  rows->zero_grad(/*set_to_none=*/true);
  CHECK_FALSE(pieces::clip_gradients(rows->parameters(), ClipGradNorm{}).defined());
}

TEST_CASE("pieces: EMA from the initial weights, and SWA") {
  Tensors ema, swa;
  after([&](Net& model, const auto& batches) {
    pieces::AveragedWeights first(model, EMA{.decay = 0.9, .from_initial_weights = true});
    pieces::AveragedWeights second(model, SWA{.start_step = 2, .every_steps = 3});
    for (const Rows& batch : batches) {
      by_hand(model, {batch}, plain_loss, nothing);
      first.update(), second.update();
    }
    ema = first.averages(), swa = second.averages();
    CHECK(second.n_averaged() == 2);
  });
  Tensors expected = cloned(made()->parameters()), two;
  int step = 0;
  each_update([&](const Tensors& now) {
    at::_foreach_lerp_(expected, now, 1 - 0.9);
    if (++step == 2) two = cloned(now);
    if (step == 5) at::_foreach_lerp_(two, now, 0.5);
  });
  CHECK(same_bits(ema, expected));
  CHECK(same_bits(swa, two));
}

TEST_CASE("pieces: a loss scale with clipping, and calls out of turn") {
  const auto clip = [](Net& net) {
    pieces::clip_gradients(net->parameters(),
                           ClipGradNorm{.max_norm = 0.05, .error_if_nonfinite = false});
  };
  int steps = 0;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    pieces::GradScaler scaler({.init_scale = 1e6});
    CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("before step"), Error);
    CHECK_THROWS_WITH_AS(scaler.step(optimizer), doctest::Contains("scaled loss"), Error);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      scaler.scale(autocast_loss(model, batch, at::kHalf)).backward();
      scaler.unscale(model->parameters());
      CHECK_THROWS_AS(scaler.unscale(model->parameters()), Error);
      clip(model);
      steps += scaler.step(optimizer);
      scaler.update();
    }
  });
  CHECK((steps > 0 && steps < 6));
  CHECK(same_bits(here, after([&](Net& model, const auto& batches) {
                    scaled_by_hand(model, batches, 1e6, clip);
                  })));
}

TEST_CASE("pieces: a loss scale for an optimizer of the library") {
  Net model = made();
  const Tensors before = cloned(model->parameters());
  pieces::Optimizer<AdamW> optimizer(model, {.lr = 1e-2});
  pieces::GradScaler scaler({.init_scale = 8});
  for (const double factor : {1.0, 1e38}) {
    optimizer.zero_grad();
    (scaler.scale(plain_loss(model, drawn()[0])) * factor).backward();
    CHECK(scaler.step(optimizer) == (factor == 1));
    scaler.update();
  }
  CHECK(scaler.loss_scale() == 4);
  optimizer.zero_grad();
  optimizer.values().lr = -1;
  plain_loss(model, drawn()[0]).backward();
  const Tensors trained = cloned(model->parameters());
  CHECK_THROWS_AS(optimizer.step(), BadValue);
  CHECK(same_bits(cloned(model->parameters()), trained));
  CHECK_FALSE(same_bits(trained, before));
}

TEST_CASE("pieces: an optimizer with the bits of its policy") {
  const Muon muon{.lr = 0.02};
  const Mechanism<CosineAnnealingLR> schedule{{.T_max = 4, .warmup_steps = 2}};
  const Tensors here = after([&](Net& model, const auto& batches) {
    pieces::Optimizer<Muon> optimizer(model, muon);
    std::int64_t step = 0;
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      plain_loss(model, batch).backward();
      optimizer.step(StepRate(schedule, step++));
    }
    CHECK(same_bits(optimizer.parameters(), model->parameters()));
  });
  CHECK(same_bits(here, after([&](Net& model, const auto& batches) {
                    const UnitTable units = UnitTable::of(model);
                    const Masters masters = ikebana::detail::masters_of(*model);
                    Mechanism<Muon> mechanism(muon);
                    mechanism.attach(at::kCPU, units);
                    mechanism.begin(masters);
                    std::int64_t step = 0;
                    for (const Rows& batch : batches) {
                      model->zero_grad();
                      plain_loss(model, batch).backward();
                      StepGradients gradients;
                      gradients.collect(masters.values);
                      mechanism.prepare(masters, gradients, StepRate(schedule, step++));
                      mechanism.update(masters, gradients);
                      Report report;
                      mechanism.end_step(gradients, report);
                    }
                  })));
}

}  // namespace test::own_loop
