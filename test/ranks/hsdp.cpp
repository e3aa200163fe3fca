// Copies of a model, each cut among some ranks: what ranks of one copy do together, and what all
// do.
#include "test.hpp"

#include <set>

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::hsdp {

const AdamW slow{.lr = 1e-3, .weight_decay = 0.1};

/// Calls `f(trainer, rank)` on each rank.
template <std::int64_t N, class Model, class Optimizer, class F>
void on_copies(std::int64_t ranks, const Optimizer& optimizer, const F& f,
               Shard<HSDP<N>> policy = {}) {
  std::vector<Model> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
  shards(policy)(ranks, [&](std::int64_t rank, auto own) {
    Trainer trainer{models[static_cast<std::size_t>(rank)], optimizer, own};
    f(trainer, rank);
  });
}

/// A unit of which a large and a small parameter are not always used.
struct PartImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(width, width));
  at::Tensor large = register_parameter("large", at::ones({800, width}) / 800);
  at::Tensor small = register_parameter("small", at::ones({width}));
  at::Tensor forward(const at::Tensor& x, bool uses) {
    const at::Tensor y = at::tanh(layer(x));
    return uses ? y + large.sum(0) * y.square() + small * x : y;
  }
};
TORCH_MODULE(Part);
struct SometimesImpl : torch::nn::Module {
  using units = Units<Part>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  Part first = register_module("first", Part()), second = register_module("second", Part());
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const bool uses = batch.input[0][4].item<double>() > 0;
    const at::Tensor x = run(second, run(first, embed(batch.input), uses), !uses);
    return {x.square().sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Sometimes);

/// Returns two rows for each rank. In step s, rank r uses the parameters if bit r of s is set.
std::vector<Rows> subsets(std::int64_t ranks) {
  std::vector<Rows> all = batches(std::int64_t(1) << ranks, 2 * ranks);
  for (std::size_t s = 0; s < all.size(); ++s)
    for (std::int64_t r = 0; r < ranks; ++r)
      all[s].input.narrow(0, 2 * r, 2).select(1, 4).fill_((s >> r & 1) == 0 ? -1 : 1);
  return all;
}
template <std::int64_t N>
void adds_what_there_is(std::int64_t ranks) {
  CAPTURE(N);
  const std::vector<Rows> all = subsets(ranks);
  const SGD sgd{.lr = 1e-2, .weight_decay = 0.1};  // not of a parameter without a gradient
  Trainer alone{make<Sometimes>(), sgd, Accumulate<>{.microbatches = ranks}};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = whole(alone);
  for (bool ordered : {true, false})
    on_copies<N, Sometimes>(ranks, sgd,
                            [&](auto& trainer, std::int64_t rank) {
                              for (const Rows& batch : all) trainer.step(part(batch, rank, ranks));
                              const auto trained = whole(trainer);
                              if (ordered) CHECK(same_bits(trained, expected));
                              else CHECK(worst_relative(trained, expected) < 1e-6);
                            },
                            {.ordered = ordered});
}
TEST_CASE("hsdp: gradients that only some ranks have are those of all copies") {
  adds_what_there_is<2>(4);
  adds_what_there_is<1>(3);
}

/// Checks a training on these pieces of a batch, of which each rank has some.
template <std::int64_t N>
void trains_pieces(const std::vector<std::vector<std::int64_t>>& rows, bool waits_for_all) {
  CAPTURE(N);
  const std::int64_t ranks = std::ssize(rows);
  std::int64_t count = 0;
  std::size_t most = 0;
  for (const auto& of_rank : rows) {
    for (const std::int64_t n : of_rank) count += n;
    most = std::max(most, of_rank.size());
  }
  const std::vector<Rows> all = batches(3, count);
  Trainer alone{make<Terms>(), slow};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = whole(alone);
  on_copies<N, Terms>(ranks, slow, [&](auto& trainer, std::int64_t rank) {
    for (const Rows& batch : all) {
      std::vector<Rows> mine;
      std::int64_t first = 0;
      for (std::int64_t r = 0; r <= rank; ++r)
        for (const std::int64_t n : rows[static_cast<std::size_t>(r)]) {
          if (r == rank) mine.push_back(rows_of(batch, first, n));
          first += n;
        }
      const Report report = trainer.step(mine);
      CHECK(report.count() == count);
      if (waits_for_all) CHECK(report.microbatches == std::int64_t(most));
      else CHECK(report.microbatches == std::ssize(mine));
    }
    CHECK(worst_relative(whole(trainer), expected) < 1e-6);
  });
}
TEST_CASE("hsdp: ranks have other numbers of rows and of microbatches, or none") {
  trains_pieces<2>({{2, 1, 1}, {3}, {1, 2}, {0}}, true);
  trains_pieces<2>({{0}, {0}, {4, 1}, {2}}, true);  // a copy without rows
  trains_pieces<1>({{2, 1, 1}, {0}, {3}}, false);
}

/// Rank 3 has all rows, so the bits equal the bits of one rank.
TEST_CASE("hsdp: ranks without a row change no bit") {
  const std::vector<Rows> all = batches(3, 4);
  Trainer alone{make<Terms>(), slow};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = whole(alone);
  on_copies<2, Terms>(4, slow, [&](auto& trainer, std::int64_t rank) {
    for (const Rows& batch : all) trainer.step(rows_of(batch, 0, rank == 3 ? 4 : 0));
    CHECK(same_bits(whole(trainer), expected));
  });
}

/// A copy has as many forwards as one of its ranks has batches, whatever other copies have.
template <std::int64_t N>
void evaluates(const std::vector<std::size_t>& counts) {
  CAPTURE(N);
  const std::vector<Rows> all = batches(9, 3);
  std::vector<std::vector<Rows>> lists(counts.size());
  std::size_t next = 0;
  for (std::size_t r = 0; r < counts.size(); ++r)
    for (std::size_t i = 0; i < counts[r]; ++i) lists[r].push_back(all.at(next++));
  Trainer alone{make<Terms>()};
  const Evaluation expected =
      alone.evaluate(std::vector(all.begin(), all.begin() + std::ptrdiff_t(next)), Accuracy{});
  on_copies<N, Terms>(std::ssize(counts), slow, [&](auto& trainer, std::int64_t rank) {
    const auto r = static_cast<std::size_t>(rank), first = r - r % N;
    std::size_t forwards = 0;
    trainer.model()->during_forward = [&] { ++forwards; };
    const Evaluation got = trainer.evaluate(lists[r], Accuracy{});
    CHECK(got.loss == doctest::Approx(expected.loss).epsilon(1e-6));
    CHECK(got.count == expected.count);
    CHECK(got["accuracy"] == expected["accuracy"]);
    CHECK(forwards == *std::max_element(counts.begin() + std::ptrdiff_t(first),
                                        counts.begin() + std::ptrdiff_t(first + N)));
  });
}
TEST_CASE("hsdp: an evaluation has the figures of all batches, however many a copy has") {
  evaluates<2>({3, 1, 1, 2});
  evaluates<2>({0, 0, 2, 1});
  evaluates<1>({2, 0, 1});
}
TEST_CASE("hsdp: a rank without a batch, in a copy that has some, is named on all ranks") {
  const std::vector<Rows> all = batches(2, 4);
  on_copies<2, Terms>(4, slow, [&](auto& trainer, std::int64_t rank) {
    const std::vector<Rows> mine = rank == 3 ? std::vector<Rows>() : all;
    const std::string text = message_of([&] { trainer.evaluate(mine); });
    CHECK_MESSAGE(contains(text, "evaluate: rank 3 has no batch"), text);
    CHECK_NOTHROW(trainer.step(part(all[0], rank, 4)));
  });
}
TEST_CASE("hsdp: a call that a copy makes alone ends on all with its name") {
  const Rows batch = batches(1, 4)[0];
  on_copies<2, Terms>(4, slow, [&](auto& trainer, std::int64_t rank) {
    for (const std::int64_t first : {0, 2}) {
      const std::string text = message_of([&] {
        if (rank - rank % 2 == first) trainer.evaluate(std::vector{batch});
        trainer.step(part(batch, rank, 4));
      });
      CHECK_MESSAGE(contains(text, "at the end of an evaluation"), text);
    }
    CHECK(trainer.steps() == 0);
    CHECK_NOTHROW(trainer.step(part(batch, rank, 4)));
  });
}

TEST_CASE("hsdp: all ranks have one model and one norm, also where copies are not ordered") {
  const std::vector<Rows> all = batches(3, 12);
  for (bool ordered : {true, false}) {
    std::vector<std::vector<at::Tensor>> weights(6);
    std::set<double> norms;
    std::mutex mutex;
    std::vector<Counted> models;
    for (int r = 0; r < 6; ++r) models.push_back(make<Counted>());
    on_groups(6, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      Trainer trainer{models[r], slow, ClipGradNorm{.max_norm = 0.05},
                      Shard<HSDP<2>>{.process_group = group, .ordered = ordered}};
      for (const Rows& batch : all) {
        const double norm = *trainer.step(part(batch, group.rank(), 6)).grad_norm();
        const std::lock_guard lock(mutex);
        norms.insert(norm);
      }
      weights[r] = whole(trainer);
    });
    for (const auto& one : weights) CHECK(same_bits(one, weights[0]));
    CHECK(norms.size() == all.size());
  }
}

TEST_CASE("hsdp: a number of ranks that is no multiple is an error of all, with both numbers") {
  Terms model = make<Terms>();
  on_groups(3, [&](const ProcessGroup& group) {
    const std::string text = message_of<BadValue>(
        [&] { Trainer trainer{model, slow, Shard<HSDP<2>>{.process_group = group}}; });
    CHECK_MESSAGE(contains(text,
                           "Shard<HSDP<2>>: 3 ranks train this model, which is no multiple "
                           "of the 2 that share a copy"),
                  text);
  });
}
TEST_CASE("hsdp: `ordered` is the same on all ranks and in all steps") {
  const Rows batch = batches(1, 4)[0];
  on_copies<2, Terms>(4, slow, [&](auto& trainer, std::int64_t rank) {
    trainer.step(part(batch, rank, 4));
    trainer.template get<Shard<HSDP<2>>>().ordered = false;
    const std::string text = message_of([&] { trainer.step(part(batch, rank, 4)); });
    CHECK_MESSAGE(contains(text, "Shard<HSDP>: ordered"), text);
  });
  std::vector<Terms> models;
  for (int r = 0; r < 4; ++r) models.push_back(make<Terms>());
  on_groups(4, [&](const ProcessGroup& group) {
    Trainer trainer{models[static_cast<std::size_t>(group.rank())], slow,
                    Shard<HSDP<2>>{.process_group = group, .ordered = group.rank() < 2}};
    const std::string text = message_of([&] { trainer.step(part(batch, group.rank(), 4)); });
    CHECK_MESSAGE(contains(text, "rank 2 has another recipe"), text);
  });
}

}  // namespace test::ranks::hsdp
