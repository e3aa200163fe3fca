// Tests policies on observe with several ranks: gathers and reductions are phases of their own, the
// bits are the ones of a training that is not observed, and all ranks repeat a step that fails.
#include "test.hpp"

#include <ikebana/observe.hpp>

#include "equals_one_rank.hpp"

using namespace ikebana;

namespace test::ranks::observed {

const SGD sgd{.lr = 1e-2, .momentum = 0.9};
const Observe<Throughput> throughput{.bound = 1e12};

/// Calls `f(trainer, batches)` on two ranks, each with its half of the batches.
template <class How, class F, class... Policies>
void on_two_ranks(const F& f, const Policies&... policies) {
  std::vector<Counted> models;
  for (int r = 0; r < 2; ++r) models.push_back(make<Counted>());
  const auto all = batches(4, 4);
  shards(Shard<How>())(2, [&](std::int64_t rank, auto shard) {
    Trainer trainer{models[static_cast<std::size_t>(rank)], sgd, shard, policies...};
    std::vector<Rows> mine;
    for (const Rows& batch : all) mine.push_back(part(batch, rank, 2));
    f(trainer, mine);
  });
}

template <class How>
void check_phases(bool gathers) {
  std::vector<at::Tensor> losses;
  on_two_ranks<How>([&](auto& trainer, const auto& batches) {
    std::vector<at::Tensor> mine;
    for (const Rows& batch : batches) mine.push_back(trainer.step(batch).mean());
    if (trainer.rank() == 0) losses = mine;
  });
  on_two_ranks<How>(
      [&](auto& trainer, const auto& batches) {
        for (std::size_t i = 0; i < batches.size(); ++i) {
          const Report report = trainer.step(batches[i]);
          CHECK(same_bits(report.mean(), losses[i]));
          CHECK(report.throughput->items.value() == 4);  // the count of both ranks
        }
        const PhaseSummary found = trainer.template mechanism<Observe<Phases>>().summary();
        CHECK(found.step.count == 3);
        CHECK(found.share("reduce") > 0);
        CHECK((found.share("gather") > 0) == gathers);
        CHECK(trainer.template mechanism<Observe<EachUnit>>().summary().steps == 3);
      },
      Observe<Phases>{.warmup = 1}, throughput, Observe<EachUnit>{.warmup = 1});
}

TEST_CASE("observed: gathers and reductions are phases, and no bit changes") {
  check_phases<DDP>(false);
  check_phases<FSDP>(true);
}

/// A block that makes a value that is not finite of a row whose input is large: in forward, or in
/// backward alone.
struct SpoiledImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(5, 5));
  bool in_backward = false;
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor ok = x.detach().abs().amax(1, true).lt(1e3).to(at::kFloat);
    if (in_backward) return layer(x) + (layer(x).square() * ok).sqrt();
    return layer(x) + (ok * 2 - 1).log();
  }
};
TORCH_MODULE(Spoiled);
struct SpoiledNetImpl : torch::nn::Module {
  using units = Units<Spoiled>;
  Spoiled first = register_module("first", Spoiled()),
          second = register_module("second", Spoiled());
  bool throws = false;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    if (throws) throw NonFinite("an error of this rank");
    const at::Tensor x = run(first, batch.input);
    return {run(second, x / x.detach().abs().amax() * batch.input.abs().amax()).sum(),
            batch.input.size(0)};
  }
};
TORCH_MODULE(SpoiledNet);

using Harm = std::function<void(SpoiledNet&, Rows&)>;
/// Makes three steps on three ranks, of which the second fails by what rank 1 does, and is repeated
/// without it. Returns the error of each rank.
template <class How>
std::vector<std::string> errors(const Harm& harm) {
  std::vector<std::string> texts(3);
  std::vector<std::vector<at::Tensor>> ends(6);
  const Rows all = batches(1, 6)[0];  // ranks that are threads share the random generator
  for (const bool fails : {false, true}) {
    std::vector<SpoiledNet> models;
    for (int r = 0; r < 3; ++r) models.push_back(make<SpoiledNet>());
    shards(Shard<How>())(3, [&](std::int64_t rank, auto shard) {
      const auto r = static_cast<std::size_t>(rank);
      SpoiledNet& model = models[r];
      Trainer trainer{model, sgd, shard, GradNorm{}, Observe<FirstNonFinite>{}};
      const Rows good = part(all, rank, 3);
      trainer.step(good);
      Rows bad = good;
      if (rank == 1) harm(model, bad);
      if (fails) texts[r] = message_of<Error>([&] { trainer.step(bad); });
      model->throws = model->first->in_backward = model->second->in_backward = false;
      CHECK(trainer.step(good).step == 1);
      ends[r + (fails ? 3 : 0)] = whole(trainer);
    });
  }
  for (const auto& end : ends) CHECK(same_bits(end, ends[0]));
  return texts;
}

template <class How>
void finds_the_rank() {
  const Harm large = [](SpoiledNet&, Rows& batch) { batch.input = batch.input + 1e4; };
  const Harm backward = [&](SpoiledNet& model, Rows& batch) {
    model->first->in_backward = model->second->in_backward = true;
    large(model, batch);
  };
  const Harm spoiled = [](SpoiledNet&, Rows& batch) { batch.input = batch.input * NAN; };
  for (const std::string& text : errors<How>(large)) {
    CAPTURE(text);
    CHECK(contains(text, "On rank 1: In a repeat of the step the first NaN was made in forward"));
    CHECK(contains(text, "in unit `first`, by `aten::log`"));
    CHECK_FALSE(contains(text, "On rank 0"));
    CHECK_FALSE(contains(text, "On rank 2"));
  }
  for (const std::string& text : errors<How>(backward)) {
    CAPTURE(text);
    CHECK(contains(text, "On rank 1: In a repeat"));
    CHECK(contains(text, "in backward, in unit `second`, in SqrtBackward0"));
    CHECK_FALSE(contains(text, "On rank 0"));
  }
  for (const std::string& text : errors<How>(spoiled)) {
    CAPTURE(text);
    CHECK(contains(text, "On rank 1: Tensor 0 of the batch [2, 5] has 10 NaN"));
    CHECK_FALSE(contains(text, "repeat"));
  }
}
TEST_CASE("observed: the first value that is not finite is named on all ranks, with its rank") {
  finds_the_rank<DDP>();
  finds_the_rank<FSDP>();
}

TEST_CASE("observed: an error that one rank throws alone is not repeated") {
  const auto texts = errors<FSDP>([](SpoiledNet& model, Rows&) { model->throws = true; });
  for (const std::string& text : texts) {
    CHECK(contains(text, "an error of this rank"));
    CHECK_FALSE(contains(text, "repeat"));
  }
  CHECK(contains(texts[0], "rank 1: "));
}

}  // namespace test::ranks::observed
