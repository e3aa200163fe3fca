// Tests profile_run on several ranks: each process profiles itself, into a folder of its own, and
// keeps every bit of its state.
#include "test.hpp"

#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>

#include "processes.hpp"

using namespace ikebana;
using namespace std::chrono_literals;

namespace test::ranks::profiled {

/// One of two processes.
TEST_CASE("profile_run: one of several processes" * doctest::skip()) {
  const auto role = processes::Role::of_environment(60s);
  std::vector<Rows> mine;
  for (const Rows& batch : batches(4, 6)) mine.push_back(part(batch, role.group.rank(), 2));
  Trainer trainer{make<Counted>(), AdamW{.lr = 0.1}, Shard<FSDP>{.process_group = role.group},
                  Observe<Phases>{.warmup = 0}};
  trainer.step(mine[0]);
  const StateDict before = trainer.state();
  const RunProfile profile =
      profile_run(trainer, mine, role.folder + "/profile", {.warmup = 1, .steps = 4});
  const StateDict after = trainer.state();
  bool is_same = after.size() == before.size();
  for (const auto& [name, value] : before) is_same = is_same && after.at(name).equal(value);
  auto file = role.file();
  file << profile.step.count << " steps, " << (is_same ? "same" : "other") << " state, "
       << (profile.phases.share("gather") > 0 ? "gathers" : "no gather") << '\n';
  for (const Advice& advice : profile.advice) file << advice.name << '\n';
  try {
    profile_run(trainer, mine, {}, {.tries_advice = true});
  } catch (const BadValue& error) {
    file << error.what() << '\n';
  }
  try {  // rank 0 alone
    if (role.group.rank() == 0) profile_run(trainer, mine, {}, {.warmup = 0, .steps = 1});
    else trainer.step(mine[0]);
    file << "no error\n";
  } catch (const Error& error) {
    file << error.what() << '\n';
  }
  file.close();
  std::quick_exit(0);
}

TEST_CASE("profile_run: each rank profiles itself, and keeps its state") {
  processes::Processes all("profiled", 2, "profile_run: one of several processes");
  for (std::size_t rank : {0u, 1u}) {
    CHECK(all.ended(rank) == 0);
    const std::string text = all.written(rank);
    CHECK_MESSAGE(contains(text, "4 steps, same state, gathers"), text);
    CHECK_FALSE_MESSAGE(contains(text, "no error"), text);
    CHECK_MESSAGE(contains(text, "profile_run"), text);
    CHECK_MESSAGE(contains(text, "communication\n"), text);  // the net is tiny
    CHECK_MESSAGE(contains(text, "tries_advice is for one rank"), text);
    CHECK(std::filesystem::exists(all.folder() / "profile" / ("rank" + std::to_string(rank)) /
                                  "report.html"));
  }
}

}  // namespace test::ranks::profiled
