// Shard<DDP>: gradients in buckets, in the order of ranks, while backward runs; sparse ones;
// buffers.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks {

/// Against one rank with as many microbatches.
template <class R>
void check_ddp(const R& recipe, Shard<DDP> policy = {}) {
  for (std::int64_t ranks : {1, 2, 3}) {
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
  for (std::size_t precise : {0, 1}) {
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

}  // namespace test::ranks
