// The policies on shard: a step that fails on one rank is undone on all, and repeated to the bit.
#include "test.hpp"

#include "../trainer/spy.hpp"
#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::shard_failures {

constexpr std::size_t never = std::size_t(-1);

template <class How>
using SpiedOn = Trainer<Counted, Spy<axis::observe>, Spy<axis::checkpoint>, Spy<axis::precision>,
                        Spy<axis::accumulate>, Spy<axis::objective>, Spy<axis::clip>,
                        Spy<axis::optimizer>, Spy<axis::schedule>, Shard<How>>;

/// Counts the calls that a step makes before it updates.
template <class T>
std::size_t calls_before_update(T& trainer, const Rows& batch) {
  journal = {};
  trainer.step(batch);
  const auto& lines = journal.lines;
  return static_cast<std::size_t>(std::find(lines.begin(), lines.end(), "optimizer.update") -
                                  lines.begin());
}
/// One step in which the call `fuse` of rank `failing` throws: it changes nothing on any rank.
template <class T>
void fails(T& trainer, const Rows& batch, std::int64_t failing, std::size_t fuse) {
  const bool is_own = trainer.rank() == failing;
  const StateDict before = trainer.state();
  journal = {{}, is_own ? fuse : never};
  const std::string text = message_of([&] { trainer.step(batch); });
  const std::string line = is_own && fuse < journal.lines.size() ? journal.lines[fuse] : "";
  journal.fuse = never;
  CAPTURE(line);
  CHECK_MESSAGE(
      (is_own ? contains(text, line) : contains(text, "rank " + std::to_string(failing) + ": ")),
      text);
  CHECK(same_state(trainer.state(), before));
  trainer.with_full_weights([](Counted&) {});  // the ranks meet for it
}
/// Each call of a step fails on one rank, and then on another; unless the tests are thorough, every
/// third one does, another third on the other rank.
template <class How>
void fails_at_hooks(std::int64_t ranks = 2) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto all = batches(3, 4);
  std::vector<std::vector<at::Tensor>> weights(3);
  auto train = [&](std::int64_t failing, std::vector<at::Tensor>& left) {
    std::vector<Counted> models;
    for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Counted>());
    on_groups(ranks, [&](const ProcessGroup& group) {
      auto& model = models[static_cast<std::size_t>(group.rank())];
      SpiedOn<How> trainer(model, Shard<How>{.process_group = group});
      auto mine = [&](std::size_t i) { return part(all[i], group.rank(), ranks); };
      trainer.step(mine(0));  // the first one makes some calls more
      const std::size_t calls = calls_before_update(trainer, mine(0));
      REQUIRE(calls > 40);
      const std::size_t stride = is_thorough() ? 1 : 3;
      for (std::size_t fuse = failing == 0 ? 0 : stride / 2; failing >= 0 && fuse < calls;
           fuse += stride)
        fails(trainer, mine(1), failing, fuse);
      trainer.step(mine(1)), trainer.step(mine(2));
      const auto trained = whole(trainer);
      if (group.rank() == 0) left = trained;
    });
  };
  train(-1, weights[0]), train(0, weights[1]), train(ranks - 1, weights[2]);
  CHECK(same_bits(weights[1], weights[0]));
  CHECK(same_bits(weights[2], weights[0]));
}
TEST_CASE("shard: a throw at any hook of one rank undoes the step on all") {
  fails_at_hooks<DDP>();
  fails_at_hooks<ZeRO1>();
  fails_at_hooks<ZeRO2>();
  fails_at_hooks<FSDP>();
  fails_at_hooks<HSDP<2>>(4);
}

/// Makes its rank's steps until one succeeds. Returns how many failed.
template <class T>
int persist(T& trainer, const Rows& batch) {
  for (int failed = 0;; ++failed) {
    try {
      trainer.step(batch);
      return failed;
    } catch (const RankFailed& error) {
      CHECK_MESSAGE(contains(error.what(), "could not meet the other ranks"), error.what());
      REQUIRE(failed < 5);
    }
  }
}
TEST_CASE("shard: ranks that waited in vain for a late one meet it at a later try") {
  using namespace std::chrono_literals;
  const auto all = batches(2, 6);
  Trainer alone{make<Counted>(), AdamW{}, Accumulate<3>{}};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = whole(alone);
  std::vector<Counted> models{make<Counted>(), make<Counted>(), make<Counted>()};
  auto train = [&](const ProcessGroup& group) {
    const std::int64_t rank = group.rank();
    Trainer trainer{models[static_cast<std::size_t>(rank)], AdamW{},
                    Shard<FSDP>{.process_group = group}};
    trainer.step(part(all[0], rank, 3));
    Rows bad = part(all[1], rank, 3);
    if (rank == 2) bad.target = bad.target + 7;
    CHECK(message_of([&] { trainer.step(bad); }) != "");
    if (rank == 2) std::this_thread::sleep_for(4500ms);
    const int failed = persist(trainer, part(all[1], rank, 3));
    CHECK((rank == 2 || failed > 0));
    CHECK(same_bits(whole(trainer), expected));
  };
  on_groups(3, train, 3s);
}

/// Ranks run units in another order in their steps 1 and 4: alike, or rank 1 alone in step 1.
enum class Reorders { All, One, OneAtFirst };
template <class How>
std::vector<std::string> reorders(Reorders who, std::int64_t ranks, std::int64_t microbatches) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto all = batches(6, 4 * ranks);
  auto set_order = [](Counted& model, std::size_t step) {
    model->other_order = step == 1 || step == 4;
  };
  Counted model = make<Counted>();
  Trainer alone{model, SGD{.lr = 0.01}, Accumulate<>{.microbatches = ranks * microbatches}};
  for (std::size_t i = 0; i < all.size(); ++i) set_order(model, i), alone.step(all[i]);
  const auto expected = whole(alone);
  std::vector<Counted> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Counted>());
  std::vector<std::string> texts(models.size());
  on_groups(ranks, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{models[r], SGD{.lr = 0.01}, Accumulate<>{.microbatches = microbatches},
                    Shard<How>{.process_group = group}};
    auto mine = [&](std::size_t i) { return part(all[i], group.rank(), ranks); };
    auto evaluated = [&] { return trainer.evaluate(std::vector{mine(0), mine(0)}).loss; };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (who == Reorders::All) {
        set_order(models[r], i);
        CHECK(std::isfinite(evaluated()));
      } else if (i == (who == Reorders::One ? 1 : 0)) {
        models[r]->other_order = r == 1;
        texts[r] = message_of([&] { trainer.step(mine(i)); });
        CHECK(trainer.steps() == static_cast<std::int64_t>(i));
        models[r]->other_order = r == 0;
        if (who == Reorders::One) CHECK(message_of([&] { evaluated(); }) != "");
      }
      if (who != Reorders::All) set_order(models[r], i);
      trainer.step(mine(i));
    }
    if (microbatches == 1) CHECK(same_bits(whole(trainer), expected));
    else CHECK(worst_relative(whole(trainer), expected) < 1e-6);
  });
  return texts;
}
template <class How>
void order_is_agreed(std::int64_t ranks) {
  reorders<How>(Reorders::All, ranks, 1), reorders<How>(Reorders::All, ranks, 2);
  const std::string by_one =
      "rank 1 is at the run of unit `second`, where the ranks agreed on the run of unit `first`";
  for (const std::string& text : reorders<How>(Reorders::One, ranks, 2)) {
    CHECK_MESSAGE(contains(text, by_one), text);
    CHECK_MESSAGE(contains(text, "(step 1)"), text);
  }
  for (const std::string& text : reorders<How>(Reorders::OneAtFirst, ranks, 2)) {
    CHECK_MESSAGE(contains(text, "at the run of unit `second`"), text);
    CHECK_MESSAGE(contains(text, "at the run of unit `first`"), text);
    CHECK_MESSAGE(contains(text, "(step 0)"), text);
  }
}
TEST_CASE("shard: ranks agree on the order of units, and an order of one rank alone is named") {
  order_is_agreed<FSDP>(2);
  order_is_agreed<HSDP<2>>(4);
}

}  // namespace test::ranks::shard_failures
