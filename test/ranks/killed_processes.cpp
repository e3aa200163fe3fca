// Ranks as processes, over a store of TCP and Gloo: the program runs itself. They train as one rank
// does, and if one of them ends, stops or goes another way, the others end with an error.
#include "test.hpp"

#include <csignal>
#include <set>

#include "processes.hpp"

using namespace ikebana;
using namespace std::chrono_literals;

namespace test::ranks::processes {

/// Trains, with a step that fails on rank 1, as one rank does.
template <class How>
void trains(const Role& role) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::int64_t rank = role.group.rank(), size = role.group.size();
  auto trained = [](auto& trainer, auto&& cut) {
    std::vector<at::Tensor> all;
    for (const Rows& batch : batches(4, 6)) all.push_back(trainer.step(cut(batch)).mean());
    const auto weights = whole(trainer);
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  };
  const AdamW optimizer{.lr = 1e-2};
  Trainer alone{make<Counted>(), optimizer, Accumulate<>{.microbatches = size}};
  const auto expected = trained(alone, [](const Rows& batch) { return batch; });
  torch::manual_seed(rank);  // all ranks take rank 0's weights
  Counted model = rank == 0 ? make<Counted>() : Counted();
  Trainer trainer{model, optimizer, Shard<How>{.process_group = role.group}};
  const Rows good = part(batches(1, 6)[0], rank, size);
  Rows bad = good;
  if (rank == 1) bad.target = bad.target + 7;
  const std::string text = message_of([&] { trainer.step(bad); });
  CHECK_MESSAGE(contains(text, "out of bounds"), text);
  CHECK(same_bits(trained(trainer, [&](const Rows& batch) { return part(batch, rank, size); }),
                  expected));
}

/// A model that draws, seeded alike on all ranks, draws other numbers on each; one that does not
/// leaves the generator as it was.
struct DrawsImpl : NetImpl {
  bool draws = true;
  std::vector<double> drawn;
  ikebana::Count count(const Rows& batch) const { return batch.target.numel(); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    if (draws) drawn.push_back(at::rand({1}).item<double>());
    return NetImpl::loss(run, batch);
  }
};
TORCH_MODULE(Draws);
void draws(const Role& role) {
  Draws model = make<Draws>();
  Trainer trainer{model, AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = role.group}};
  const auto all = batches(4, 6);
  auto step = [&](std::size_t i) {
    trainer.step(part(all[i], role.group.rank(), role.group.size()));
  };
  model->draws = false;
  torch::manual_seed(7);
  step(0);
  const double before = at::rand({1}).item<double>();
  torch::manual_seed(7);
  CHECK(at::rand({1}).item<double>() == before);
  torch::manual_seed(7);
  model->draws = true;
  step(1), step(2);
  CHECK(model->drawn[0] != model->drawn[1]);
  role.file() << model->drawn[0] << ' ' << model->drawn[1] << ' ' << before;
}

/// Rank `harmed` does `what` in its third step; the others write their errors.
template <class How>
void is_lost(const Role& role, std::int64_t harmed, const std::function<void(CountedImpl&)>& what) {
  Counted model = make<Counted>();
  Trainer trainer{model, AdamW{.lr = 1e-2}, Shard<How>{.process_group = role.group}};
  const auto all = batches(4, 12);
  auto mine = [&](std::size_t i) { return part(all[i], role.group.rank(), role.group.size()); };
  trainer.step(mine(0)), trainer.step(mine(1));
  if (role.group.rank() == harmed) what(*model);
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = message_of<Error>([&] { trainer.step(mine(2)); });
  role.file() << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
              << ' ' << text;
  std::quick_exit(0);  // a stopped store would be waited for
}
constexpr auto limit = 6s, long_limit = 60s;
constexpr double soon = 40;  // seconds, on a busy machine: before the long limit
/// Rank 1 ends when the ranks have met, and the others make a trainer.
void is_lost_early(const Role& role) {
  if (role.group.rank() == 1) raise(SIGKILL);
  Counted model = make<Counted>();
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = message_of<RankFailed>(
      [&] { Trainer trainer{model, AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = role.group}}; });
  role.file() << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
              << ' ' << text;
  std::quick_exit(0);
}

TEST_CASE("ranks: one of several processes" * doctest::skip()) {
  const std::string name = std::getenv("IKEBANA_TEST_ROLE");
  const bool waits = name.find("stopped") != name.npos;
  const Role role = Role::of_environment(waits ? limit : long_limit);
  auto killed = [](CountedImpl& model) { model.during_forward = [] { raise(SIGKILL); }; };
  auto stopped = [](CountedImpl& model) { model.during_forward = [] { raise(SIGSTOP); }; };
  if (name == "trains") {
    trains<DDP>(role), trains<ZeRO1>(role), trains<ZeRO2>(role), trains<FSDP>(role);
  } else if (name == "draws") {
    draws(role);
  } else if (name == "killed") {
    is_lost<FSDP>(role, 1, killed);
  } else if (name == "killed in a copy") {
    is_lost<HSDP<2>>(role, 3, killed);
  } else if (name == "first killed") {
    is_lost<FSDP>(role, 0, killed);
  } else if (name == "stopped") {
    is_lost<FSDP>(role, 1, stopped);
  } else if (name == "first stopped") {
    is_lost<FSDP>(role, 0, stopped);
  } else if (name == "killed early") {
    is_lost_early(role);
  } else {
    auto reorders = [](CountedImpl& model) { model.other_order = true; };
    if (name == "other order") is_lost<FSDP>(role, 1, reorders);
    else is_lost<HSDP<2>>(role, 3, reorders);
  }
}

TEST_CASE("ranks: processes train as one rank does - also after a step that one of them fails") {
  for (std::int64_t size : {2, 3}) {
    CAPTURE(size);
    Processes all("trains", size);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank)
      CHECK(all.ended(rank) == 0);
  }
}

TEST_CASE("ranks: processes with one seed draw numbers of their own") {
  Processes all("draws", 3);
  std::set<std::string> drawn;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(all.ended(rank) == 0);
    std::istringstream written(all.written(rank));
    std::string first, second, before;
    written >> first >> second >> before;
    drawn.insert({first, second});
    if (rank == 0) CHECK(first == before);  // the first rank keeps its seed's weights
  }
  CHECK(drawn.size() == 6);
}

/// Checks that the other ranks end in time with these words, and that a `harmed` rank that
/// continues does so, too.
void others_say(const std::string& name, std::size_t harmed, const std::string& words,
                double seconds, std::int64_t ranks = 3, bool goes_on = false) {
  CAPTURE(name);
  Processes all(name, ranks);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    if (rank == harmed && !goes_on) continue;
    CHECK(all.ended(rank) == 0);
    std::istringstream written(all.written(rank));
    double took = 1e9;
    std::string text;
    std::getline(written >> took, text, '\0');
    CHECK_MESSAGE(took < seconds, took);
    CHECK_MESSAGE(contains(text, words), text);
    if (name != "killed early") CHECK_MESSAGE(contains(text, "(step 2)"), text);
    CHECK_MESSAGE((contains(text, "ranks: ")), text);  // what was due
  }
}
TEST_CASE("ranks: a process that is killed ends the others with an error that names it") {
  others_say("killed", 1, "rank 1 ended", soon);
  others_say("first killed", 0, "rank 0", soon);
  others_say("killed in a copy", 3, "rank 3 ended", soon, 6);
}
TEST_CASE("ranks: a process that ends before the ranks are connected ends the others") {
  others_say("killed early", 1, "rank 1 ended", soon);
}
TEST_CASE("ranks: a process that stops ends the others within the time limit") {
  const double most = std::chrono::duration<double>(limit).count() + 14;  // on a busy machine
  others_say("stopped", 1, "rank 1 ended, or did not answer", most);
  others_say("first stopped", 0, "rank 0", most);
}
TEST_CASE("ranks: a process that runs units in another order ends all before their time limit") {
  auto words = [](const char* rank) {
    return std::string("rank ") + rank +
           " is at the run of unit `second`, where the ranks agreed on the run of unit `first`";
  };
  others_say("other order", 1, words("1"), soon, 3, /*goes_on=*/true);
  others_say("other order in a copy", 3, words("3"), soon, 4, /*goes_on=*/true);
}

}  // namespace test::ranks::processes
