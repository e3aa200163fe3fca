// Tests several trainers of one process group that ranks make or step in another order. All ranks
// get one error long before the time limit, which says for what each waits. There is no error if
// they only wait.
#include "test.hpp"

#include <array>
#include <thread>

#include "processes.hpp"

using namespace ikebana;
using namespace std::chrono_literals;

namespace test::ranks::trainer_order {

/// Two trainers of a rank, and the models for them. These are made before the ranks, which are
/// threads of a process and share its generator.
template <class How>
struct Two {
  using T = Trainer<Counted, SGD, Shard<How>>;
  ProcessGroup group;
  std::array<Counted, 2> models;
  Rows batch;
  std::optional<T> first = {}, second = {};

  void make_first() { make(first, models[0]); }
  void make_second(double lr = 0.01) { make(second, models[1], lr); }
  void make_both() { make_first(), make_second(); }
  void step(std::optional<T>& trainer) { trainer->step(batch); }

 private:
  void make(std::optional<T>& trainer, const Counted& model, double lr = 0.01) {
    trainer.emplace(model, SGD{.lr = lr}, Shard<How>{.process_group = group});
  }
};
std::array<Counted, 2> two_models() {
  return {test::ranks::make<Counted>(), test::ranks::make<Counted>()};
}
/// Calls `f(two, rank)` for each rank.
template <class How, class F>
void on_ranks(std::int64_t ranks, const F& f) {
  std::vector<std::array<Counted, 2>> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(two_models());
  const Rows batch = batches(1, 6)[0];
  on_groups(ranks, [&](const ProcessGroup& group) {
    Two<How> two{group, models[static_cast<std::size_t>(group.rank())],
                 part(batch, group.rank(), ranks)};
    f(two, group.rank());
  });
}

struct Told {
  std::string text;
  double seconds = 0;
};
template <class F>
Told told(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = message_of<Error>(f);
  return {text, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}
/// Returns what `f(trainers, rank)` throws on each rank.
template <class How, class F>
std::vector<Told> all_told(std::int64_t ranks, const F& f) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  std::vector<Told> all(static_cast<std::size_t>(ranks));
  on_ranks<How>(ranks, [&](Two<How>& two, std::int64_t rank) {
    all[static_cast<std::size_t>(rank)] = told([&] { f(two, rank); });
  });
  return all;
}
/// Checks that each ends in a few seconds, or on a busy machine in more, of the minute that they
/// have.
void check(const std::vector<Told>& all, const std::vector<std::string>& words) {
  for (const Told& one : all) {
    CHECK_MESSAGE(one.seconds < 40, one.seconds);
    for (const std::string& word : words) CHECK_MESSAGE(contains(one.text, word), one.text);
  }
}
const std::string cure = "make and step trainers in the same order on all ranks";

template <class How>
void step_in_another_order() {
  auto train = [](Two<How>& two, std::int64_t rank) {
    two.make_both();
    two.step(two.second), two.step(two.first);
    two.step(rank == 0 ? two.first : two.second);
  };
  check(all_told<How>(2, train),
        {"ranks: rank 0 is at the opening of a step (trainer 1, `",
         ", and rank 1 at the opening of a step (trainer 2, `", "`Trainer<test::ranks::Counted, ",
         "Shard<" + ikebana::detail::type_name<How>() + ">", cure});
}
TEST_CASE("ranks: two trainers that ranks step in another order are an error that names both") {
  step_in_another_order<DDP>();
  step_in_another_order<FSDP>();
}

TEST_CASE("ranks: of trainers in another order all calls are named, and all ranks throw") {
  const auto all = all_told<DDP>(3, [](Two<DDP>& two, std::int64_t rank) {
    two.make_both();
    two.step(two.first), two.step(two.second);
    if (rank == 2) two.second->evaluate(std::vector{two.batch});
    else two.step(two.first);
  });
  check(all, {"and rank 2 at the end of an evaluation (trainer 2, `",
              "is at the opening of a step (trainer 1, `"});
}

TEST_CASE("ranks: trainers that ranks make in another order are an error") {
  using Other = Trainer<Counted, AdamW, Shard<DDP>>;
  auto other_recipes = [](Two<DDP>& two, std::int64_t rank) {  // seen when they are made
    if (rank == 0) two.make_first();
    Other other(two.models[1], AdamW{}, Shard<DDP>{.process_group = two.group});
    if (rank == 1) two.make_first();
  };
  check(
      all_told<DDP>(2, other_recipes),
      {"trainer: rank 0 makes `Trainer<test::ranks::Counted, Shard<DDP>, SGD>` as trainer 1 of its "
       "ProcessGroup, and rank 1 `Trainer<test::ranks::Counted, Shard<DDP>>`.",  // AdamW
       "in the same order, on all ranks"});
  auto alike = [](Two<DDP>& two, std::int64_t rank) {  // seen when they are stepped
    if (rank == 0) two.make_first(), two.make_second(0.1);
    else two.make_second(0.1), two.make_first();
    two.step(two.first);
  };
  check(all_told<DDP>(2, alike), {"rank 0 is at the opening of buckets (trainer 1, `",
                                  "rank 1 at the opening of buckets (trainer 2, `", cure});
  auto between = [](Two<DDP>& two, std::int64_t rank) {
    two.make_first();
    if (rank == 1) two.step(two.first);
    two.make_second();
  };
  check(all_told<DDP>(2, between), {"rank 0 is at the making of a trainer (trainer 2, `",
                                    "rank 1 at the opening of buckets (trainer 1, `", cure});
}

TEST_CASE("ranks: after an error for their order trainers are stepped again, to the bit") {
  std::vector<std::vector<at::Tensor>> weights(2);
  auto train = [&](bool fails) {
    on_ranks<FSDP>(2, [&](Two<FSDP>& two, std::int64_t rank) {
      two.make_both();
      auto both = [&] { two.step(two.first), two.step(two.second); };
      both();
      if (fails) {
        auto& trainer = rank == 0 ? two.first : two.second;
        const StateDict before = trainer->state();
        CHECK(contains(message_of<BadModel>([&] { two.step(trainer); }), cure));
        CHECK(same_state(trainer->state(), before));
        // Each learns in the other trainer that it failed. Then all meet again.
        auto& other = rank == 0 ? two.second : two.first;
        CHECK(contains(message_of<RankFailed>([&] { two.step(other); }), cure));
      }
      both();
      const auto whole_one = whole(*two.first), whole_other = whole(*two.second);
      CHECK(same_bits(whole_one, whole_other));
      if (rank == 0) weights[fails] = whole_one;
    });
  };
  train(false), train(true);
  CHECK(same_bits(weights[0], weights[1]));
}

TEST_CASE("ranks: a rank that comes late is no error, whatever was waited for before") {
  on_ranks<DDP>(2, [&](Two<DDP>& two, std::int64_t rank) {
    two.make_both();
    auto late = [&](std::int64_t who) {
      if (rank == who) std::this_thread::sleep_for(1700ms);
    };
    late(0), two.step(two.first);   // rank 1 has waited in the first
    late(1), two.step(two.second);  // and now rank 0 in the second
    late(0), two.step(two.first);
    CHECK(two.first->steps() == 2);
  });
}
TEST_CASE("ranks: trainers with a thread each wait for each other in any order") {
  on_ranks<DDP>(2, [&](Two<DDP>& two, std::int64_t rank) {
    two.make_both();
    auto steps = [&](auto& trainer, std::int64_t late) {
      for (int i = 0; i < 2; ++i) {
        if (rank == late) std::this_thread::sleep_for(2s);
        two.step(trainer);
      }
    };
    std::exception_ptr error;
    std::thread other([&] {
      try {
        steps(two.second, 0);  // rank 1 waits here
      } catch (...) {
        error = std::current_exception();
      }
    });
    const std::string text = message_of<Error>([&] { steps(two.first, 1); });  // and rank 0 here
    other.join();
    CHECK_MESSAGE(text.empty(), text);
    CHECK(!error);
  });
}

TEST_CASE("ranks: one of several processes with two trainers" * doctest::skip()) {
  const auto role = processes::Role::of_environment(60s);
  Two<FSDP> two{role.group, two_models(),
                part(batches(1, 6)[0], role.group.rank(), role.group.size())};
  two.make_both();
  const Told one = told([&] { two.step(role.group.rank() == 1 ? two.second : two.first); });
  role.file() << one.seconds << ' ' << one.text;
  // Rank 0, whose process has the store, may end at once: the other one has its error by then.
}
TEST_CASE("ranks: processes that step their trainers in another order get one error") {
  processes::Processes all("order", 3, "ranks: one of several processes with two trainers");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(all.ended(rank) == 0);
    Told one;
    std::istringstream written(all.written(rank));
    std::getline(written >> one.seconds, one.text, '\0');
    check({one}, {"is at the opening of a step (trainer ", "trainer 1, `", "trainer 2, `", cure});
  }
}

}  // namespace test::ranks::trainer_order
