// Tests that several ranks report one figure: of evaluations, metrics and fit, over data of which
// each reads its part.
#include "test.hpp"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

/// One that cannot be added up.
struct Last {
  std::string name = "last";
  double seen = 0;
  void update(const Rows&, const at::Tensor& outputs) { seen = outputs[0][0].item<double>(); }
  double value() const { return seen; }
};

template <Kind K>
using Own = Trainer<Counted, AdamW, GradNorm, Double<K>>;
template <Kind K, class F>
void on_two(const F& f) {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    Own<K> trainer(models[static_cast<std::size_t>(wire->rank())], AdamW{.lr = 1e-2},
                   Double<K>{.wire = wire});
    f(trainer, wire);
  });
}

template <Kind K>
void evaluates_as_one() {
  CAPTURE(K);
  std::vector<Rows> all = batches(4, 3);
  all[1].target[0] = -100, all[2].input = all[2].input.narrow(0, 0, 1);  // batches of unequal
                                                                         // weight
  all[2].target = all[2].target.narrow(0, 0, 1);
  Trainer alone{make<Counted>()};
  const Evaluation expected = alone.evaluate(all, Accuracy{});
  on_two<K>([&](auto& trainer, auto& wire) {
    const auto first = static_cast<std::size_t>(wire->rank()) * 2;
    const std::vector<Rows> mine{all[first], all[first + 1]};
    const Evaluation got = trainer.evaluate(mine, Accuracy{});
    CHECK(got.loss == doctest::Approx(expected.loss).epsilon(1e-12));
    CHECK(got.count == expected.count);
    CHECK(got["accuracy"] == expected["accuracy"]);
    CHECK(contains(message_of([&] { trainer.evaluate(mine, Last{}); }), "`last` has no `reduce("));
    trainer.step(mine[0]);  // the ranks meet again
  });
}
TEST_CASE("ranks: an evaluation and its metrics are those of all ranks' batches") {
  evaluates_as_one<Kind::DDP>();
  evaluates_as_one<Kind::ZeRO2>();
  evaluates_as_one<Kind::FSDP>();
}
TEST_CASE("ranks: whole parameters are evaluated with another number of batches on each rank") {
  const auto all = batches(3, 2);
  Trainer alone{make<Counted>()};
  const double expected = alone.evaluate(all).loss;
  const double two = alone.evaluate(std::vector(all.begin(), all.begin() + 2)).loss;
  on_two<Kind::DDP>([&](auto& trainer, auto& wire) {
    const std::vector<Rows> mine(all.begin() + (wire->rank() == 0 ? 0 : 2),
                                 wire->rank() == 0 ? all.begin() + 2 : all.end());
    CHECK(trainer.evaluate(mine).loss == doctest::Approx(expected).epsilon(1e-12));
    const Evaluation got =
        trainer.evaluate(wire->rank() == 0 ? mine : std::vector<Rows>(), Accuracy{});
    CHECK(got.loss == doctest::Approx(two).epsilon(1e-12));
    CHECK(got.count == 4);
    CHECK(contains(message_of([&] { trainer.evaluate(std::vector<Rows>()); }),
                   "the loader gave nothing to count"));
  });
}

/// Rank 1 wants to stop after its second step: all stop after the third.
template <Kind K>
void stops_together() {
  CAPTURE(K);
  std::vector<std::int64_t> steps(2), at_end(2);
  const std::vector<Rows> all = batches(6, 4);
  on_two<K>([&](auto& trainer, auto& wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    std::vector<Rows> mine;
    for (const Rows& batch : all) mine.push_back(part(batch, wire->rank(), 2));
    FitOptions<Rows> options{.epochs = 2, .progress = false};
    options.stop = [&] { return r == 1 && trainer.steps() >= 2; };
    History history = trainer.fit(mine, options);
    steps[r] = trainer.steps();
    CHECK(history.stopped);
    CHECK_FALSE(history.terminated);
    // Asked for at the last step of an epoch, it is obeyed before the next one.
    options = {.epochs = 3, .progress = false};
    options.stop = [&] { return r == 1 && trainer.steps() >= 3 + 6; };
    trainer.fit(mine, options);
    at_end[r] = trainer.steps();
  });
  CHECK(steps == std::vector<std::int64_t>{3, 3});
  CHECK(at_end == std::vector<std::int64_t>{9, 9});
}
TEST_CASE("ranks: fit ends after the same step on all") {
  stops_together<Kind::DDP>();
  stops_together<Kind::FSDP>();
}

struct Numbers {
  std::int64_t samples;
  std::int64_t size() const { return samples; }
  at::Tensor get(std::int64_t i) const { return at::scalar_tensor(i, at::kLong); }
};
/// Batch k of all ranks together, in the order of ranks.
using Order = std::vector<std::vector<std::int64_t>>;
Order read_by(std::int64_t ranks, std::int64_t samples, DataLoaderOptions options) {
  Order all;
  options.num_replicas = ranks;
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    DataLoader loader{Numbers{samples}, options};
    all.resize(static_cast<std::size_t>(loader.size()));
    std::size_t k = 0;
    for (auto& batch : loader) {
      const std::int64_t n =
          std::min(options.batch_size, samples - static_cast<std::int64_t>(k) * options.batch_size);
      CHECK((batch.scalar_type() == at::kLong));
      CHECK(batch.dim() == 1);
      CHECK(batch.numel() == n * (options.rank + 1) / ranks - n * options.rank / ranks);
      for (std::int64_t i = 0; i < batch.numel(); ++i)
        all.at(k).push_back(batch[i].template item<std::int64_t>());
      ++k;
    }
    CHECK(k == all.size());
  }
  return all;
}
TEST_CASE("ranks: on any number of ranks a loader has the same batches, every sample once") {
  for (std::int64_t samples : {1, 2, 7, 24, 31})
    for (std::int64_t batch_size : {1, 2, 7, 40})
      for (bool shuffle : {false, true})
        for (bool drop_last : {false, true}) {
          if (drop_last && samples < batch_size) continue;
          CAPTURE(samples);
          CAPTURE(batch_size);
          const DataLoaderOptions options{
              .batch_size = batch_size, .shuffle = shuffle, .drop_last = drop_last, .seed = 3};
          const Order one = read_by(1, samples, options);
          std::set<std::int64_t> read;
          std::int64_t count = 0;
          for (const auto& batch : one)
            read.insert(batch.begin(), batch.end()), count += std::ssize(batch);
          CHECK(count == samples - (drop_last ? samples % batch_size : 0));
          CHECK(std::ssize(read) == count);
          for (std::int64_t ranks : {2, 3, 8}) CHECK((read_by(ranks, samples, options) == one));
        }
  auto refused = [](std::int64_t ranks, std::int64_t rank) {
    return message_of<BadValue>(
        [&] { DataLoader loader{Numbers{9}, {.num_replicas = ranks, .rank = rank}}; });
  };
  CHECK(contains(refused(3, 3), "ranks count from 0"));
  CHECK(contains(refused(0, 0), "num_replicas is 0"));
}

TEST_CASE("ranks: whole weights are read and written by all ranks together") {
  const Counted other = [] {
    torch::manual_seed(9);
    return Counted();
  }();
  const Rows first = batches(1, 4)[0];
  auto check = [&]<Kind K>(std::integral_constant<Kind, K>) {
    on_two<K>([&](auto& trainer, auto& wire) {
      trainer.step(part(first, wire->rank(), 2));
      const at::NoGradGuard no_grad;
      trainer.with_full_weights([&](Counted& model) {
        for (std::size_t i = 0; i < model->parameters().size(); ++i)
          model->parameters()[i].copy_(other->parameters()[i]);
      });
      trainer.with_full_weights(
          [&](Counted& model) { CHECK(same_bits(model->parameters(), other->parameters())); });
      const at::AutoGradMode grad(true);
      trainer.step(part(first, wire->rank(), 2));
      const auto file = std::filesystem::temp_directory_path() /
                        ("ikebana_" + std::to_string(getpid()) + ".safetensors");
      trainer.save_weights(file);
      wire->exchange("written");
      Counted read;
      load_weights(read, file);
      trainer.with_full_weights(
          [&](Counted& model) { CHECK(same_bits(model->parameters(), read->parameters())); });
      wire->exchange("read");
      if (wire->rank() == 0) std::filesystem::remove(file);
    });
  };
  check(std::integral_constant<Kind, Kind::DDP>());
  check(std::integral_constant<Kind, Kind::ZeRO2>());
  check(std::integral_constant<Kind, Kind::FSDP>());
}

}  // namespace test::ranks
