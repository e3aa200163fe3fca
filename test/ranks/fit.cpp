// Accumulate<Fit<>> on several ranks: memory that runs out on one rank undoes the step on all, and
// all make it again with more microbatches.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::fit_ranks {

/// Says where a microbatch with more rows than there is room for runs out of memory.
enum class At { Forward, End, Backward };

[[noreturn]] inline void throw_no_room() {
  at::empty({1 << 22}, at::kByte);  // if bytes are counted, the attempt takes many
  throw OutOfMemory("no room");
}
struct RoomImpl : NetImpl {
  std::int64_t room = 1 << 20;
  At where = At::Forward;
  bool fails_once = false;  // with another error
  int forwards = 0;

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    ++forwards;
    const bool is_full = batch.input.size(0) > room;
    if (is_full && where == At::Forward) throw_no_room();
    if (std::exchange(fails_once, false)) throw std::runtime_error("another error");
    Loss loss = NetImpl::loss(run, batch);
    if (is_full && (where == At::End || !loss.sum.requires_grad())) throw_no_room();
    if (is_full) loss.sum.register_hook([](const at::Tensor&) { throw_no_room(); });
    return loss;
  }
};
TORCH_MODULE(Room);

std::vector<Room> models(std::int64_t n) {
  std::vector<Room> all;
  std::generate_n(std::back_inserter(all), n, [] { return make<Room>(); });
  return all;
}
/// The results of every rank.
struct Outcome {
  std::vector<Trace> traces;
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> numbers;  // the numbers of microbatches
  explicit Outcome(std::int64_t n)
      : traces(std::size_t(n)), texts(std::size_t(n)), numbers(std::size_t(n)) {}
};
template <class How, class Accumulation>
auto made(Room model, Accumulation accumulate, const ProcessGroup& group) {
  return Trainer{model, AdamW{.lr = 1e-2}, accumulate, Shard<How>{.process_group = group}};
}
/// Trains on each rank with its part of every batch. `f(trainer, rank, parts)` makes the steps.
template <class How, class Accumulation, class F>
Outcome outcome(std::vector<Room> on, Accumulation accumulate, const F& f) {
  const auto n = static_cast<std::int64_t>(on.size());
  Outcome out(n);
  const auto all = batches(4, 4 * n);
  on_groups(n, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    std::vector<Rows> mine;
    for (const Rows& batch : all) mine.push_back(part(batch, group.rank(), n));
    auto trainer = made<How>(on[r], accumulate, group);
    f(trainer, mine, out, r);
  });
  return out;
}
template <class How>
Outcome counted(std::int64_t microbatches) {
  return outcome<How>(models(2), Accumulate<>{.microbatches = microbatches},
                      [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
                        out.traces[r] = trained(trainer, mine);
                      });
}
const auto steps = [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
  out.traces[r] = trained(trainer, mine);
  const auto& mechanism = trainer.template mechanism<Accumulate<Fit<8>>>();
  out.numbers[r] = {mechanism.microbatches(), mechanism.changes()};
};
using Numbers = std::vector<std::int64_t>;

template <class How>
void one_rank_runs_out() {
  const Outcome expected = counted<How>(2);
  for (const At where : {At::Forward, At::End, At::Backward})
    for (const std::size_t rank : {0, 1}) {
      auto on = models(2);
      on[rank]->room = 2, on[rank]->where = where;
      const Outcome got = outcome<How>(on, Accumulate<Fit<8>>{}, steps);
      for (const auto& numbers : got.numbers) CHECK(numbers == Numbers{2, 1});
      for (std::size_t r : {0, 1}) compare(got.traces[r], expected.traces[r], {});
    }
}
TEST_CASE("ranks: memory that runs out on one rank lets all make the step again") {
  one_rank_runs_out<DDP>(), one_rank_runs_out<FSDP>(), one_rank_runs_out<HSDP<1>>();
}

TEST_CASE("ranks: each rank may run out at another number of microbatches") {
  auto on = models(3);
  on[0]->room = 2, on[2]->room = 1;
  const Outcome got = outcome<FSDP>(on, Accumulate<Fit<8>>{}, steps);
  for (const auto& numbers : got.numbers) CHECK(numbers == Numbers{4, 2});
  for (const Trace& trace : got.traces) compare(trace, got.traces[0], {});
}

TEST_CASE("ranks: a step that fits in no number of microbatches throws on all, and is undone") {
  auto on = models(2);
  on[1]->room = 0;
  const Outcome got = outcome<FSDP>(
      on, Accumulate<Fit<8>>{}, [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
        const StateDict before = trainer.state();
        out.texts[r] = message_of([&] { trainer.step(mine[0]); });
        CHECK(same_state(trainer.state(), before));
        trainer.model()->room = 4;
        out.traces[r] = trained(trainer, mine);
      });
  for (const std::string& text : got.texts)
    for (const char* part : {"into 1, 2, 4 microbatches", "the last one is one row"})
      CHECK(contains(text, part));
  CHECK(contains(got.texts[0], "rank 1: no room"));
  const Outcome expected = counted<FSDP>(1);
  for (std::size_t r : {0, 1}) compare(got.traces[r], expected.traces[r], {});
}

TEST_CASE("ranks: a policy on shard that cannot tell the reason lets the step throw on all") {
  auto on = models(2);
  on[1]->room = 2;
  std::vector<std::string> texts(2);
  const auto all = batches(1, 8);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{on[r], AdamW{}, Accumulate<Fit<8>>{}, Double<Kind::DDP>{.wire = wire}};
    const Rows mine = part(all[0], wire->rank(), 2);
    texts[r] = message_of([&] { trainer.step(mine); });
    CHECK(trainer.mechanism<Accumulate<Fit<8>>>().microbatches() == 1);
    trainer.model()->room = 8;
    CHECK(trainer.step(mine).undone == 0);
  });
  CHECK(contains(texts[0], "rank 1: no room"));
  CHECK(contains(texts[1], "no room (step 0, microbatch 1 of 1; batch: "));
  CHECK(contains(texts[1], "\nThe memory held between steps, on cpu, rank 1 of 2"));
}

TEST_CASE("ranks: another error throws on all, also beside memory that runs out") {
  for (const bool beside : {false, true}) {
    auto on = models(2);
    on[0]->fails_once = true;
    if (beside) on[1]->room = 2;
    const Outcome got = outcome<FSDP>(
        on, Accumulate<Fit<8>>{}, [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
          out.texts[r] = message_of([&] { trainer.step(mine[0]); });
          out.numbers[r] = {trainer.steps()};
          if (trainer.steps() == 0) trainer.step(mine[0]);
          out.traces[r] = trained(trainer, std::vector<Rows>{mine[1], mine[2]});
        });
    CHECK(got.numbers[0] == got.numbers[1]);  // the first error decides
    CHECK(got.texts[0].empty() == got.texts[1].empty());
    if (!beside) CHECK(contains(got.texts[1], "rank 0: another error"));
    compare(got.traces[0], got.traces[1], {});
  }
}

/// Rank 0 has one row of each batch, and rank 1 six.
template <class How, class Accumulation>
std::vector<Trace> unequal(std::int64_t room, Accumulation accumulate) {
  auto on = models(2);
  on[1]->room = room;
  return outcome<How>(on, accumulate,
                      [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
                        std::vector<Rows> some;
                        for (const Rows& one : mine) some.push_back(narrow(one, 0, r == 0 ? 1 : 3));
                        out.traces[r] = trained(trainer, some);
                      })
      .traces;
}
TEST_CASE("ranks: those with fewer rows than microbatches take part in the repeated step") {
  const auto got = unequal<FSDP>(1, Accumulate<Fit<8>>{});
  const auto expected = unequal<FSDP>(9, Accumulate<>{.microbatches = 3});
  for (std::size_t r : {0, 1}) compare(got[r], expected[r], {});
}

TEST_CASE("ranks: one whose loader has ended takes part in the repeated step") {
  auto train = [](std::int64_t room, auto accumulate) {
    auto on = models(2);
    on[1]->room = room;
    return outcome<FSDP>(on, accumulate,
                         [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
                           trainer.step(mine[0]);
                           if (r == 1) trainer.step(mine[1]);
                           while (trainer.join_step(mine[0])) {
                           }
                           out.numbers[r] = {trainer.steps()};
                           out.traces[r].weights = whole(trainer);
                         });
  };
  const Outcome got = train(2, Accumulate<Fit<8>>{});
  const Outcome expected = train(9, Accumulate<>{.microbatches = 2});
  for (std::size_t r : {0, 1}) {
    CHECK(got.numbers[r] == Numbers{2});
    CHECK(same_bits(got.traces[r].weights, expected.traces[r].weights));
  }
}

TEST_CASE("ranks: all try fewer microbatches after the same steps") {
  auto on = models(2);
  on[1]->room = 2;
  const Outcome got =
      outcome<FSDP>(on, Accumulate<Fit<8>>{.quiet_steps = 2},
                    [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
                      for (int i = 0; i < 15; ++i) {
                        if (i == 8) trainer.model()->room = 8;
                        const Report report = trainer.step(mine[std::size_t(i) % 4]);
                        out.numbers[r].push_back(report.microbatches + 10 * *report.undone);
                      }
                    });
  CHECK(got.numbers[0] == Numbers{12, 2, 12, 2, 2, 2, 12, 2, 2, 2, 2, 2, 2, 2, 1});
  CHECK(got.numbers[1] == got.numbers[0]);
}

template <class How>
void evaluates_in_parts() {
  double expected = 0;
  for (const std::int64_t room : {9, 2, 1}) {
    CAPTURE(room);
    auto on = models(2);
    on[1]->room = room;
    const Outcome got = outcome<How>(
        on, Accumulate<Fit<8>>{}, [](auto& trainer, const auto& mine, Outcome& out, std::size_t r) {
          std::vector<Rows> some(mine.begin(), mine.begin() + (r == 0 ? 1 : 3));
          const Evaluation evaluation = trainer.evaluate(some, Accuracy{});
          out.traces[r].norms = {evaluation.loss, evaluation["accuracy"], evaluation.count};
          out.numbers[r] = {trainer.template mechanism<Accumulate<Fit<8>>>().evaluation_parts(),
                            trainer.model()->forwards};
          trainer.step(mine[0]);
        });
    CHECK(got.traces[0].norms == got.traces[1].norms);
    if (room == 9) expected = got.traces[0].norms[0];
    CHECK(got.traces[0].norms[0] == doctest::Approx(expected).epsilon(1e-6));
    for (const auto& numbers : got.numbers) CHECK(numbers[0] == (room == 9 ? 1 : 4 / room));
  }
}
TEST_CASE("ranks: an evaluation in parts has the result of whole batches") {
  evaluates_in_parts<DDP>();
  evaluates_in_parts<FSDP>();
}

}  // namespace test::ranks::fit_ranks
