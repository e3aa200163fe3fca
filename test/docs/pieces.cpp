// Compiles and runs the code of docs/pieces.md: pieces of the library in loops of LibTorch, without
// a trainer. Each ends with what the same loop ends with by LibTorch alone.
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>
#include <ikebana/state/weights.hpp>

#include <cmath>
#include <numbers>

#include "own_loop.hpp"
#include "state/folder.hpp"

namespace test::own_loop {

TEST_CASE("docs/pieces.md: an autocast scope") {
  const Tensors here = after([](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      autocast_loss(model, batch, at::kBFloat16).backward();
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    by_hand(
        model, batches,
        [](Net& net, const Rows& batch) { return cast_loss(net, batch, at::kBFloat16); }, nothing);
  });
  CHECK(same_bits(here, by_libtorch));
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("docs/pieces.md: a checkpointed call") {
  int forwards = 0;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    pieces::Checkpointed block(model->block);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      at::Tensor x = block(batch.input);
      cross_entropy(model->head(x), batch.target).backward();  // computes the block again
      optimizer.step();
    }
    forwards = model->block->forwards;
  });
  const Tensors by_libtorch =
      after([](Net& model, const auto& batches) { by_hand(model, batches, plain_loss, nothing); });
  CHECK(same_bits(here, by_libtorch));
  CHECK(forwards == 12);
}

TEST_CASE("docs/pieces.md: clipping") {
  at::Tensor norm;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      norm = pieces::clip_gradients(model->parameters(), ClipGradNorm{.max_norm = 0.05});
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    by_hand(model, batches, plain_loss,
            [](Net& net) { nn::utils::clip_grad_norm_(net->parameters(), 0.05); });
  });
  CHECK(norm.item<double>() > 0.05);
  CHECK(worst_relative(here, by_libtorch) < 1e-6);
}

TEST_CASE("docs/pieces.md: EMA") {
  Tensors averages;
  after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    pieces::AveragedWeights average(model, EMA{.decay = 0.9});
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      optimizer.step();
      average.update();
    }
    at::Tensor output = average.evaluate([&] { return model->forward(batches[0].input); });
    averages = cloned(average.averages());
    average.evaluate([&] { CHECK(same_bits(cloned(model->parameters()), averages)); });
  });
  Tensors expected;
  each_update([&](const Tensors& now) {
    if (expected.empty()) expected = cloned(now);
    else at::_foreach_lerp_(expected, now, 1 - 0.9);
  });
  CHECK(same_bits(averages, expected));
}

TEST_CASE("docs/pieces.md: a schedule") {
  const Tensors here = after([](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const Mechanism<CosineAnnealingLR> schedule{{.T_max = 4, .warmup_steps = 2}};
    std::int64_t step = 0;
    for (const Rows& batch : batches) {
      const double lr = schedule.rate(0.1, step++);
      for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const double t = static_cast<double>(i);
      const double lr =
          i < 2 ? 0.05 * (t + 1) : 0.05 * (1 + std::cos(std::numbers::pi * (t - 2) / 4));
      torch::optim::SGD optimizer(model->parameters(), lr);
      plain_loss(model, batches[i]).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  CHECK(worst_relative(here, by_libtorch) < 1e-6);
}

TEST_CASE("docs/pieces.md: a loss scale") {
  double scale = 0;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    pieces::GradScaler scaler({.init_scale = 1e6});
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      scaler.scale(autocast_loss(model, batch, at::kHalf)).backward();
      scaler.step(optimizer);
      scaler.update();
    }
    scale = scaler.loss_scale();
  });
  double scale_by_hand = 0;
  const Tensors by_libtorch = after([&](Net& model, const auto& batches) {
    scale_by_hand = scaled_by_hand(model, batches, 1e6, nothing);
  });
  CHECK((scale < 1e6 && scale > 1e6 / 64));
  CHECK(scale == scale_by_hand);
  CHECK(same_bits(here, by_libtorch));
}

TEST_CASE("docs/pieces.md: an optimizer") {
  const Tensors here = after([](Net& model, const auto& batches) {
    pieces::Optimizer<AdamW> optimizer(model, {.lr = 1e-2});
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    torch::optim::AdamW optimizer(model->parameters(), 1e-2);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      plain_loss(model, batch).backward();
      optimizer.step();
    }
  });
  CHECK(worst_relative(here, by_libtorch) < 1e-4);
}

TEST_CASE("docs/pieces.md: files of weights") {
  const Folder folder;
  Net model = made();
  save_weights(model, folder / "net.safetensors");

  Net other;
  load_weights(other, folder / "net.safetensors");
  save_tensors(folder / "head.safetensors", {{"weight", other->head->weight}});
  StateDict tensors = load_tensors(folder / "head.safetensors").tensors;

  CHECK(same_bits(ikebana::detail::detached(other->parameters()),
                  ikebana::detail::detached(model->parameters())));
  CHECK(same_bits(tensors.at("weight"), model->head->weight));
}

}  // namespace test::own_loop
