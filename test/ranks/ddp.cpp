// Shard<DDP>: training on several ranks equals training on one; what cannot work is an error.
#include "test.hpp"

#include "groups.hpp"
#include "row_net.hpp"

using namespace ikebana;

namespace test::ranks::ddp {

/// Compares with one rank with as many microbatches.
template <class R>
void check_ddp(const R& recipe, Shard<DDP> policy = {}) {
  for (std::int64_t ranks : {1, 2, 3, 4}) {
    Bounds bounds = recipe.bounds;
    if (ranks == 1) bounds = {.bits = true, .norms = recipe.bounds.norms};
    recipe.check(ranks, shards(policy), recipe.alone(ranks), bounds);
  }
}
const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("ddp: groups, frozen weights, a late count, Checkpoint<Full>, the norm, any buckets") {
  const auto row = recipe<Late>({}, 1, adamw, GradNorm{}, Checkpoint<Full>{},
                                Freeze<>{.match = named("*.still.weight")});
  for (double mib : {1e-6, 0.005, 0.02, 1.0}) check_ddp(row, {.bucket_cap_mb = mib});
}
TEST_CASE("ddp: FP16, EMA, Checkpoint<Selective>") {
  check_ddp(
      recipe<Counted>({}, 1, adamw, Precision<FP16>{}, Checkpoint<Selective>{}, EMA{.decay = 0.5}));
}
TEST_CASE("ddp: BF16Weights, BF16True, Checkpoint<Segments>") {
  check_ddp(recipe<Counted>({}, 1, adamw, Precision<BF16Weights>{}, Checkpoint<Segments<2>>{}),
            {.bucket_cap_mb = 0.01});
  check_ddp(recipe<Counted>({}, 1, adamw, Precision<BF16True>{}), {.bucket_cap_mb = 0.01});
}
TEST_CASE("ddp: clipping, several microbatches on each rank, an all-reduce, a reduce_dtype") {
  AdamW slow = adamw;
  slow.lr = 1e-3;
  const auto row =
      recipe<Counted>({.bits = false, .norms = 1e-6}, 2, slow, ClipGradNorm{.max_norm = 0.05});
  check_ddp(row, {.bucket_cap_mb = 0.01});
  check_ddp(row, {.bucket_cap_mb = 0.01, .ordered = false});
  check_ddp(row, {.bucket_cap_mb = 0.01, .reduce_dtype = at::kDouble});
}

/// Parameters that only some ranks use, in some steps; one that is used twice; several dtypes and
/// layouts; gradients that are expanded; a gradient that hooks change, or erase.
struct BranchesImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width)),
                    some = register_module("some", torch::nn::Linear(width, width)),
                    others = register_module("others", torch::nn::Linear(width, width));
  Inner twice = register_module("twice", Inner());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 3));
  at::Tensor exact = register_parameter("exact", at::ones({3}, at::kDouble)),
             number = register_parameter("number", at::ones({})),
             nothing = register_parameter("nothing", at::ones({0, 4})),
             summed = register_parameter("summed", at::ones({3, 1})),
             scaled = register_parameter("scaled", at::ones({7})),
             erased = register_parameter("erased", at::ones({5})),
             image = register_parameter(
                 "image", at::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
  bool backward_in_loss = false;
  std::deque<bridge::PostAccumulateHook> hooks;

  BranchesImpl() {
    scaled.register_hook([](const at::Tensor& g) { return (g * 2).expand({7}); });
    hooks.emplace_back(erased, [](const at::Tensor& p) { p.mutable_grad().reset(); });
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = run(twice, run(twice, embed(batch.input)));
    const float first = batch.input[0][0].template item<float>();
    if (first > 0) x = x + some(x);
    if (first < -0.5f) x = others(x);
    if (backward_in_loss) (number * first).backward();
    const at::Tensor extra = exact.prod().to(at::kFloat) + number + nothing.sum() + summed.sum() +
                             scaled.mean() + erased.mean() + image.square().mean();
    return {.sum = at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum) * extra,
            .count = batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Branches);
struct InnerBackwardImpl : BranchesImpl {
  InnerBackwardImpl() { backward_in_loss = true; }
};
TORCH_MODULE(InnerBackward);

TEST_CASE("ddp: parameters that some ranks use, or none; any dtype, layout, and change by a hook") {
  const auto row = recipe<Branches>({}, 1, adamw);
  for (double mib : {1e-6, 0.005, 1.0}) check_ddp(row, {.bucket_cap_mb = mib});
  const auto rounded = recipe<Branches>({.bits = false}, 1, SGD{.lr = 1e-3});
  check_ddp(rounded, {.bucket_cap_mb = 0.01, .ordered = false});
  check_ddp(rounded, {.bucket_cap_mb = 0.01, .reduce_dtype = at::kDouble});
}
TEST_CASE("ddp: gradients of a backward pass within the loss are added where they can be") {
  check_ddp(recipe<InnerBackward>({.bits = false}, 1, SGD{.lr = 1e-3}));
}

TEST_CASE("ddp: sums are rounded to a reduce_dtype") {
  const auto all = batches(1, 4);
  std::vector<at::Tensor> gradients(2), summed(2);
  for (std::size_t precise : {0u, 1u}) {
    std::vector<Counted> models{make<Counted>(), make<Counted>()};
    on_groups(2, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      Shard<DDP> policy{.process_group = group};
      if (!precise) policy.reduce_dtype = at::kBFloat16;
      Trainer trainer{models[r], SGD{.lr = 1}, policy};
      const at::Tensor before = models[r]->head->weight.detach().clone();
      trainer.step(part(all[0], group.rank(), 2));
      if (r == 0) summed[precise] = before - models[r]->head->weight.detach();
    });
  }
  CHECK(worst_relative({summed[0]}, {summed[1]}) < 0.01);
  CHECK(worst_relative({summed[0]}, {summed[1]}) > 1e-5);
}

TEST_CASE("ddp: values that cannot work") {
  for (double mib : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto make_trainer = [&] {
      Trainer t{make<Counted>(),
                Shard<DDP>{.process_group = ProcessGroup(nullptr, 0, 1), .bucket_cap_mb = mib}};
    };
    CHECK(contains(message_of<BadValue>(make_trainer), "bucket_cap_mb is"));
  }
  CHECK(contains(message_of<BadValue>([] {
                   Trainer t{make<Counted>(),
                             Shard<DDP>{.process_group = ProcessGroup(nullptr, 0, 1),
                                        .reduce_dtype = at::kInt}};
                 }),
                 "reduce_dtype is Int"));
}

/// Two ranks call `f`, and both have an error with these words.
template <class F>
void all_say(const char* words, const F& f) {
  const auto all = long_rows(2, 4);
  std::vector<Row> models{make<Row>(), make<Row>()};
  std::vector<std::string> texts(2);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    texts[r] = message_of([&] { f(group, models[r], all); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, words), text);
}
TEST_CASE("ddp: values that differ, or change, are an error on all ranks") {
  all_say("rank 0 has bucket_cap_mb=1,", [](auto& group, Row& model, auto& all) {
    const double cap = 1 + static_cast<double>(group.rank());
    Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = cap}};
    t.step(all[0]);
  });
  all_say("Shard<DDP>: a value was changed", [](auto& group, Row& model, auto& all) {
    Trainer t{model, Shard<DDP>{.process_group = group}};
    t.step(all[0]);
    t.template get<Shard<DDP>>().broadcast_buffers = false;
    t.step(all[0]);
  });
  all_say("`3.weight` was frozen when", [](auto& group, Row& model, auto& all) {
    model->layers[3]->weight.set_requires_grad(false);
    Trainer t{model, Shard<DDP>{.process_group = group}};
    t.step(all[0]);
    model->layers[3]->weight.set_requires_grad(true);
    t.step(all[0]);
  });
}
TEST_CASE("ddp: gradients that are written after they were handed over are an error on all ranks") {
  for (std::size_t layer : {11u, 10u})  // before its bucket begins, and after
    all_say("was written after it had been handed over", [&](auto& group, Row& model, auto& all) {
      Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = two_layers}};
      bridge::PostAccumulateHook hook(model->layers[layer]->weight, [](const at::Tensor& p) {
        p.mutable_grad() = at::ones_like(p);
      });
      t.step(all[0]);
    });
  all_say("got a gradient after its gradient had been", [](auto& group, Row& model, auto& all) {
    Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = two_layers}};
    model->during_backward = [&] {
      const at::AutoGradMode enabled(true);
      model->layers[11]->weight.sum().backward();
    };
    t.step(part(all[0], group.rank(), 2));
  });
}
TEST_CASE("ddp: parameters that are frozen later get no gradient, and delay none") {
  const auto all = long_rows(3, 4);
  std::vector<Row> models{make<Row>(), make<Row>()};
  Row alone = make<Row>();
  auto train = [&](Row& model, auto& trainer, const auto& mine) {
    trainer.step(mine(0));
    for (const auto& p : model->layers[11]->parameters()) p.set_requires_grad(false);
    trainer.step(mine(1));
    model->layers[2]->bias.set_requires_grad(false);
    trainer.step(mine(2));
  };
  Trainer one{alone, AdamW{}, Accumulate<2>{}};
  train(alone, one, [&](std::size_t i) { return all[i]; });
  on_groups(2, [&](const ProcessGroup& group) {
    Row& model = models[static_cast<std::size_t>(group.rank())];
    Trainer trainer{model, AdamW{},
                    Shard<DDP>{.process_group = group, .bucket_cap_mb = two_layers}};
    train(model, trainer, [&](std::size_t i) { return part(all[i], group.rank(), 2); });
  });
  for (const Row& model : models) CHECK(same_bits(copies(model), copies(alone)));
}

}  // namespace test::ranks::ddp
