// Tests Shard<DDP>: sparse gradients of several ranks, and buffers.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::ddp_sparse {

using Plain = LibTorchOptimizer<torch::optim::SGD>;  // takes sparse and dense gradients

/// An embedding of LibTorch, a bag, and a weight whose sparse gradients no module reports. Some
/// ranks use no entry of one in some steps.
struct WordsImpl : torch::nn::Module {
  torch::nn::Embedding words = register_module(
      "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 6).sparse(true)));
  torch::nn::EmbeddingBag bag = register_module(
      "bag", torch::nn::EmbeddingBag(
                 torch::nn::EmbeddingBagOptions(20, 6).sparse(true).mode(torch::kSum)));
  at::Tensor own = register_parameter("own", at::randn({20, 6})),
             before = register_parameter("before", at::randn({6})),
             sometimes = register_parameter("sometimes", at::randn({20, 6}));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(6, 3));
  bool is_sparse = true;
  int steps = 0;

  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor at = (batch.input * 4).abs().to(at::kLong).clamp(0, 19);
    at::Tensor x = words(at).sum(1) + bag(at) + before;
    const float first = batch.input[0][0].template item<float>();
    if (first > -0.5f) x = x + at::embedding(own, at, -1, false, is_sparse).sum(1);
    if (first > 0.5f) x = x + at::embedding(sometimes, at, -1, false, true).mean(1);
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Words);

template <class R>
void check_ddp(const R& recipe, Shard<DDP> policy = {}) {
  for (std::int64_t ranks : {1, 2, 3})
    recipe.check(ranks, shards(policy), recipe.alone(ranks), recipe.bounds);
}
TEST_CASE("ddp: sparse gradients are put together in the order of ranks") {
  check_ddp(recipe<Words>({}, 1, Plain{{0.1}}));
  check_ddp(recipe<Words>({}, 1, SparseAdam{.lr = 0.1}), {.bucket_cap_mb = 1e-6});
  check_ddp(recipe<Words>({.bits = false}, 2, SparseAdam{.lr = 1e-3}));
  check_ddp(recipe<Words>({}, 1, SparseAdam{.lr = 0.1}, Precision<BF16Weights>{}));
}

TEST_CASE("ddp: gradients that are sparse or dense by step, or by rank") {
  const auto all = batches(5, 4);
  const std::vector<bool> sparse{true, false, false, true, true};
  for (bool two : {false, true}) {
    Words alone = make<Words>();
    std::vector<Words> models{make<Words>(), make<Words>()};
    std::vector<std::string> texts(2);
    Trainer one{alone, Plain{{0.1}}, Accumulate<2>{}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      alone->is_sparse = sparse[i];
      one.step(all[i]);
    }
    on_groups(2, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      Trainer trainer{models[r], Plain{{0.1}}, Shard<DDP>{.process_group = group}};
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Rows mine = part(all[i], group.rank(), 2);
        if (two && (i == 0 || i == 4)) {
          models[r]->is_sparse = r == 1;
          Rows used = mine;
          used.input = mine.input.abs();
          texts[r] = message_of<BadModel>([&] { trainer.step(used); });
          CHECK_MESSAGE(
              contains(texts[r], "gradient of `own` is sparse on rank 1 and dense on rank 0"),
              texts[r]);
        }
        models[r]->is_sparse = sparse[i];
        trainer.step(mine);
      }
    });
    for (const Words& model : models) CHECK(same_bits(copies(model), copies(alone)));
  }
}

/// Statistics, a constant, and buffers of several dtypes; what they are when a forward begins.
struct NormedImpl : torch::nn::Module {
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 3));
  at::Tensor rows = register_buffer("rows", at::zeros({}, at::kLong)),
             flags = register_buffer("flags", at::zeros({3, 2}, at::kBool).t()),
             still = register_buffer("still", at::arange(5)),
             shared = register_buffer("shared", at::ones({1}).expand({4})),
             entries = register_buffer("entries", at::eye(3).to_sparse());
  std::vector<std::vector<at::Tensor>> seen;
  bool fails = false;

  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    seen.emplace_back();
    for (const at::Tensor& b : buffers())
      if (!b.is_sparse()) seen.back().push_back(b.clone());
    const at::Tensor x = norm(embed(batch.input));
    if (is_training()) {
      const at::NoGradGuard no_grad;
      rows.add_(static_cast<std::int64_t>(batch.input.sum().template item<float>() * 100));
      flags.copy_(batch.input.slice(0, 0, 2).slice(1, 0, 3) > 0);
    }
    if (fails) throw std::runtime_error("no loss");
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Normed);

TEST_CASE("ddp: steps and evaluations begin with rank 0's buffers; an undone step restores them") {
  const auto all = batches(4, 9);
  for (bool broadcast : {true, false}) {
    std::vector<Normed> models{make<Normed>(), make<Normed>(), make<Normed>()};
    std::vector<std::vector<at::Tensor>> after(3);
    on_groups(3, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      Normed& model = models[r];
      Trainer trainer{model, AdamW{.lr = 1e-2},
                      Shard<DDP>{.process_group = group, .broadcast_buffers = broadcast}};
      auto mine = [&](std::size_t i) { return part(all[i], group.rank(), 3); };
      const auto* memory = model->norm->running_mean.const_data_ptr();
      trainer.step(mine(0));
      trainer.step(std::vector{mine(1), mine(2)});
      StateDict before = trainer.state();
      model->fails = r == 1;
      CHECK(contains(message_of([&] { trainer.step(mine(3)); }), "no loss"));
      StateDict now = trainer.state();
      for (StateDict* state : {&before, &now}) state->erase("entries");  // sparse
      CHECK(same_state(now, before));
      model->fails = false;
      trainer.step(mine(3));
      for (const auto& b : model->norm->buffers()) after[r].push_back(b.clone());
      trainer.evaluate(std::vector{mine(0)});
      CHECK(model->norm->running_mean.const_data_ptr() == memory);
    });
    for (std::size_t r : {1u, 2u}) {
      CHECK(!same_bits(after[r], after[0]));
      REQUIRE(models[r]->seen.size() == 6);  // the second microbatch of a step has this rank's
      for (std::size_t i : {0u, 1u, 4u, 5u}) {
        CAPTURE(i);
        const bool is_same = same_bits(models[r]->seen[i], models[0]->seen[i]);
        CHECK(is_same == (broadcast || i == 0));
      }
      CHECK(!same_bits(models[r]->seen[2], models[0]->seen[2]));
    }
  }
}

}  // namespace test::ranks::ddp_sparse
