// Compiles and runs the code of docs/pieces.md: pieces of the library in loops of LibTorch, without
// a trainer. Each ends with what the same loop ends with by LibTorch alone.
#include "test.hpp"

#include <ATen/autocast_mode.h>
#include <ikebana/average/ema.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/checkpoint/full.hpp>
#include <ikebana/clip/clip_grad_norm.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/precision/fp16.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>
#include <ikebana/state/weights.hpp>

#include <cmath>
#include <numbers>

#include "state/folder.hpp"

namespace test::pieces {

using namespace ikebana;
namespace nn = torch::nn;
using nn::functional::cross_entropy;

struct Rows {
  at::Tensor input, target;
};

struct BlockImpl : nn::Module {
  nn::Linear up = register_module("up", nn::Linear(8, 32));
  nn::Linear down = register_module("down", nn::Linear(32, 8));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.1));
  int forwards = 0;
  at::Tensor forward(const at::Tensor& x) {
    ++forwards;
    return x + dropout(down(at::gelu(up(x))));
  }
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  using units = Units<Block>;
  Block block = register_module("block", Block());
  nn::Linear head = register_module("head", nn::Linear(8, 3));
  at::Tensor forward(const at::Tensor& x) { return head(block(x)); }
};
TORCH_MODULE(Net);

Net made() {
  torch::manual_seed(0);
  Net net;
  torch::manual_seed(1);  // the seed of the masks that dropout draws
  return net;
}

std::vector<Rows> drawn() {
  torch::manual_seed(2);
  std::vector<Rows> all;
  for (int i = 0; i < 6; ++i) all.push_back({at::randn({16, 8}), at::randint(3, {16}, at::kLong)});
  return all;
}

/// Calls `train(model, batches)` with a new model, and returns its parameters.
template <class Train>
Tensors after(const Train& train) {
  const std::vector<Rows> batches = drawn();
  Net model = made();
  train(model, batches);
  return ikebana::detail::detached(model->parameters());
}

// Gives the names and tensors of what is trained, for the pieces that update weights.
Masters masters_of(nn::Module& model) {
  Masters masters;
  for (const auto& item : model.named_parameters()) {
    masters.names.push_back(item.key());
    masters.values.push_back(item.value());
  }
  return masters;
}

// Computes a block for a checkpointed call; backward calls the copy that `owned` makes.
struct BlockCall {
  Block block;
  at::Tensor operator()(const at::Tensor& x) const { return block.ptr()->forward(x); }
  BlockCall owned() const { return *this; }
};

/// Trains by LibTorch alone; calls `loss(model, batch)`, and `before(model)` before each update.
template <class Loss, class Before>
void by_hand(Net& model, const std::vector<Rows>& batches, const Loss& loss, const Before& before) {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (const Rows& batch : batches) {
    optimizer.zero_grad();
    loss(model, batch).backward();
    before(model);
    optimizer.step();
  }
}
at::Tensor plain_loss(Net& model, const Rows& batch) {
  return cross_entropy(model->forward(batch.input), batch.target);
}
constexpr auto nothing = [](Net&) {};

TEST_CASE("docs/pieces.md: an autocast scope") {
  const Tensors here = after([](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      at::Tensor loss;
      {
        const bridge::AutocastScope autocast(at::kCPU, at::kBFloat16);
        loss = cross_entropy(model->forward(batch.input), batch.target);
      }
      loss.backward();
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    const auto loss = [](Net& net, const Rows& batch) {
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::set_autocast_enabled(at::kCPU, true);
      at::Tensor sum = plain_loss(net, batch);
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
      return sum;
    };
    by_hand(model, batches, loss, nothing);
  });
  CHECK(same_bits(here, by_libtorch));
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("docs/pieces.md: a checkpointed call") {
  int forwards = 0;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const UnitTable units = UnitTable::of(model);
    Mechanism<Checkpoint<Full>> checkpoint{{}};
    checkpoint.attach(at::kCPU, units);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      Block& block = model->block;
      at::Tensor x = checkpoint.around_unit(units.at(block.get()), BlockCall{block}, batch.input);
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
  double norm = 0;
  const Tensors here = after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Mechanism<ClipGradNorm> clip{ClipGradNorm{.max_norm = 0.05}};
    const OneRank ranks;
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      StepGradients gradients;
      gradients.collect(model->parameters());
      clip.clip(gradients, ranks);
      gradients.apply_divisor();  // to the gradients of the parameters, in place
      norm = gradients.norm.item<double>();
      optimizer.step();
    }
  });
  const Tensors by_libtorch = after([](Net& model, const auto& batches) {
    by_hand(model, batches, plain_loss,
            [](Net& net) { nn::utils::clip_grad_norm_(net->parameters(), 0.05); });
  });
  CHECK(norm > 0.05);
  CHECK(worst_relative(here, by_libtorch) < 1e-6);
}

TEST_CASE("docs/pieces.md: EMA") {
  Tensors averages;
  after([&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const Masters masters = masters_of(*model);
    Mechanism<EMA> ema{EMA{.decay = 0.9}};
    ema.attach(at::kCPU, UnitTable::of(model));
    ema.begin(masters);
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      const at::NoGradGuard no_grad;
      StepGradients gradients;
      gradients.collect(masters.values);
      ema.prepare(masters, gradients, [](double lr) { return lr; });
      optimizer.step();
      ema.after_update(masters, gradients);
    }
    averages = ema.averages();
  });
  Tensors expected;
  after([&](Net& model, const auto& batches) {
    for (const Rows& batch : batches) {
      by_hand(model, {batch}, plain_loss, nothing);  // SGD without momentum has no state
      const Tensors now = ikebana::detail::detached(model->parameters());
      if (expected.empty())
        for (const at::Tensor& weight : now) expected.push_back(weight.clone());
      else
        for (std::size_t i = 0; i < now.size(); ++i) expected[i].lerp_(now[i], 0.1);
    }
  });
  CHECK(worst_relative(averages, expected) < 1e-6);
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

/// Trains under autocast to FP16 with a loss scale by LibTorch alone; returns the last scale.
double scaled_by_hand(Net& model, const std::vector<Rows>& batches, double scale) {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (const Rows& batch : batches) {
    optimizer.zero_grad();
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::Tensor loss = plain_loss(model, batch);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    (loss * scale).backward();
    bool is_finite = true;
    for (const at::Tensor& weight : model->parameters()) {
      weight.grad().div_(scale);
      is_finite = is_finite && weight.grad().isfinite().all().item<bool>();
    }
    if (is_finite) optimizer.step();
    else scale /= 2;
  }
  return scale;
}

TEST_CASE("docs/pieces.md: a loss scale") {
  int skipped = 0;
  double scale = 0;
  const auto train = [&](Net& model, const auto& batches) {
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Mechanism<Precision<FP16>> fp16{{.init_scale = 1e6}};
    fp16.attach(at::kCPU, UnitTable::of(model));
    ikebana::DeferredCheck deferred;
    const OneRank ranks;
    for (const Rows& batch : batches) {
      optimizer.zero_grad();
      at::Tensor loss = fp16.around_forward(
          [&] { return cross_entropy(model->forward(batch.input), batch.target); });
      loss.backward(fp16.scale(at::ones({})));
      StepGradients gradients;
      gradients.collect(model->parameters());
      fp16.unscale(gradients);
      fp16.accept(gradients, LossValue{}, ranks, deferred);  // looks for infinities
      gradients.apply_divisor();
      const bool overflowed = gradients.found_inf.item().toBool();
      if (!overflowed) optimizer.step();
      Report report;
      fp16.end_step(gradients, report);  // the scale of the next step
      skipped += overflowed;
    }
    scale = fp16.loss_scale();
  };
  const Tensors here = after(train);
  double scale_by_hand = 0;
  const Tensors by_libtorch = after([&](Net& model, const auto& batches) {
    scale_by_hand = scaled_by_hand(model, batches, 1e6);
  });
  CHECK((skipped > 0 && skipped < 6));
  CHECK(scale == scale_by_hand);
  CHECK(worst_relative(here, by_libtorch) < 1e-3);  // processors may multiply FP16 in FP32
}

TEST_CASE("docs/pieces.md: an optimizer") {
  const Tensors here = after([](Net& model, const auto& batches) {
    const Masters masters = masters_of(*model);
    Mechanism<AdamW> optimizer{AdamW{.lr = 1e-2}};
    optimizer.begin(masters);
    for (const Rows& batch : batches) {
      model->zero_grad();
      cross_entropy(model->forward(batch.input), batch.target).backward();
      const at::NoGradGuard no_grad;
      StepGradients gradients;
      gradients.collect(masters.values);
      optimizer.prepare(masters, gradients, [](double lr) { return lr; });
      optimizer.update(masters, gradients);
      Report report;
      optimizer.end_step(gradients, report);
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

}  // namespace test::pieces
