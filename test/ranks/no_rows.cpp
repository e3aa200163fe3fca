// A batch without rows, and a rank without gradients: they leave no trace, and if all ranks have
// none, the step is an error.
#include "test.hpp"

#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

/// Draws numbers, and changes buffers.
struct NoisyImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(width));
  Inner inner = register_module("inner", Inner());
  at::Tensor forwards = register_buffer("forwards", at::zeros({}));
  double dropout = 0;
  bool draws = false;
  std::vector<bool> evaluating = {};
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    forwards.add_(1);
    evaluating.push_back(run.evaluating && !is_training());
    const at::Tensor x = run(inner, norm(embed(batch.input)));
    if (draws) at::rand({3});
    return {at::dropout(x, dropout, is_training()).square().sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Noisy);
bridge::GeneratorPosition position() {
  return bridge::GeneratorState(c10::Device(c10::kCPU)).position();
}

/// Rank 1 has `rows` rows in the first microbatch, and none or no second one in another.
template <Kind K>
void leaves_no_trace(bool has_first) {
  CAPTURE(K);
  CAPTURE(has_first);
  std::vector<Noisy> models{make<Noisy>(), make<Noisy>()};
  const auto all = batches(2, 4);
  models[1]->dropout = has_first ? 0 : 0.5, models[1]->draws = !has_first;
  const auto before = position();
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    Trainer trainer{models[static_cast<std::size_t>(wire->rank())], Double<K>{.wire = wire}};
    if (wire->rank() == 0) trainer.step(all);
    else trainer.step(std::vector<Rows>(1, has_first ? all[0] : rows_of(all[0], 0, 0)));
  });
  CHECK((position() == before));
  CHECK(models[1]->norm->num_batches_tracked.item<std::int64_t>() == (has_first ? 1 : 0));
  CHECK(models[1]->forwards.item<double>() == (has_first ? 1 : 0));
  CHECK(models[0]->norm->num_batches_tracked.item<std::int64_t>() == 2);
  if (!has_first) CHECK(same_bits(models[1]->norm->running_mean, at::zeros({width})));
  std::vector<bool> evaluating(K == Kind::DDP ? 1 : 2, true);
  evaluating[0] = !has_first;
  CHECK((models[1]->evaluating == evaluating));
  for (const auto& module : models[1]->modules()) CHECK(module->is_training());
}

}  // namespace

TEST_CASE(
    "uneven: a batch of weight zero leaves buffers, modes and random generators as they are") {
  for (bool has_first : {false, true}) {
    leaves_no_trace<Kind::DDP>(has_first);
    leaves_no_trace<Kind::ZeRO2>(has_first);
    leaves_no_trace<Kind::FSDP>(has_first);
  }
  const auto before = position();  // with a row it does draw
  Noisy noisy = make<Noisy>();
  noisy->draws = true;
  Trainer{noisy}.step(batches(1, 4)[0]);
  CHECK_FALSE((position() == before));
}

namespace {

template <Kind K>
void refuses_all_empty() {
  const Rows all = batches(1, 4)[0], none = rows_of(all, 0, 0);
  auto f = [&](auto& trainer, std::int64_t rank) {
    const auto refused = [&] { trainer.step(none); };
    CHECK(contains(message_of(refused), "the batches of all ranks have no rows"));
    CHECK(trainer.steps() == 0);
    const auto empty_range = [&] { trainer.step(std::vector<Rows>()); };
    CHECK_FALSE(message_of(empty_range).empty());
    return std::vector{trainer.step(rank == 0 ? all : none).mean()};
  };
  on_ranks<K, Counted>(2, f);
}
/// A parameter of another model takes the place of all of this one's.
struct OtherImpl : NetImpl {
  at::Tensor other;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    if (other.defined()) return {other * batch.input.sum(), batch.input.size(0)};
    return NetImpl::loss(run, batch);
  }
};
TORCH_MODULE(Other);

}  // namespace

TEST_CASE("uneven: where no rank has a row, or one rank is all, the step is refused") {
  refuses_all_empty<Kind::DDP>();
  refuses_all_empty<Kind::FSDP>();
  on_threads(1, [&](std::shared_ptr<Wire> wire) {
    Counted model = make<Counted>();
    Trainer trainer{model, Double<Kind::FSDP>{.wire = wire}};
    const auto refused = [&] { trainer.step(rows_of(batches(1, 4)[0], 0, 0)); };
    CHECK(contains(message_of(refused), "batch: it is empty"));
    CHECK_FALSE(trainer.join_step(batches(1, 4)[0]));
  });
}

TEST_CASE("uneven: a rank whose loss gives no gradient takes those of the others") {
  const Rows all = batches(1, 4)[0];
  std::vector<Other> models{make<Other>(), make<Other>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], slow, Double<Kind::DDP>{.wire = wire}};
    if (r == 0) not_trained(models[0]->other = at::ones({}).requires_grad_());
    trainer.step(all);
    not_trained(models[r]->other = at::ones({}).requires_grad_());
    CHECK(contains(message_of([&] { trainer.step(all); }), "got a gradient from it"));
    CHECK_FALSE(models[r]->other.grad().defined());
  });
  CHECK(same_bits(models[0]->parameters(), models[1]->parameters()));
  CHECK_FALSE(same_bits(models[0]->parameters(), make<Other>()->parameters()));
}

TEST_CASE("uneven: a step with an empty rank makes as many exchanges as another") {
  const Rows all = batches(1, 4)[0];
  auto f = [&](auto& trainer, std::int64_t rank) {
    auto& wire = *trainer.template mechanism<Double<Kind::FSDP>>().values.wire;
    auto exchanges = [&](const Rows& batch) {
      const auto before = wire.exchanges;
      trainer.step(batch);
      return wire.exchanges - before;
    };
    exchanges(all);
    CHECK(exchanges(all) == exchanges(rows_of(all, 0, rank == 0 ? 2 : 0)));
    return std::vector{at::zeros({})};
  };
  on_ranks<Kind::FSDP, Counted>(2, f);
}

}  // namespace test::ranks
