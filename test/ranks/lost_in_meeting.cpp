// Tests ranks whose process is killed before the ranks have met. The others do not wait for them if
// they can know it.
#include "test.hpp"

#include <csignal>
#include <fstream>
#include <thread>

#include "processes.hpp"

using namespace ikebana;
using namespace std::chrono_literals;

namespace test::ranks::lost_in_meeting {

/// Rank 1 is killed at `moment`; rank 0 writes its error and when it came.
void meet(const std::string& moment) {
  const World world = World::from_environment();
  const auto begin = std::chrono::steady_clock::now();
  if (moment == "while another one is awaited") {
    if (world.rank == 1) alarm(1);
    if (world.rank == 2) std::this_thread::sleep_for(60s);
  }
  const std::string text = message_of<RankFailed>([&] {
    auto store = make_store(world, 50s);
    if (world.rank == 1) raise(SIGKILL);
    const ProcessGroup group(store, world.rank, world.size, {.timeout = 50s});
    Trainer trainer{make<Counted>(), SGD{.lr = 0.1}, Shard<DDP>{.process_group = group}};
  });
  std::ofstream(std::string(std::getenv("IKEBANA_TEST_FOLDER")) + "/" + std::to_string(world.rank))
      << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << ' '
      << text;
  std::quick_exit(0);
}
TEST_CASE("ranks: one of several processes that meet" * doctest::skip()) {
  meet(std::getenv("IKEBANA_TEST_ROLE"));
}

void rank_0_says(const std::string& moment, const std::string& words) {
  CAPTURE(moment);
  processes::Processes all(moment, 3, "ranks: one of several processes that meet");
  CHECK(all.ended(0) == 0);
  std::istringstream written(all.written(0));
  double seconds = 1e9;
  std::string text;
  std::getline(written >> seconds, text, '\0');
  CHECK_MESSAGE(seconds < 40, seconds);
  CHECK_MESSAGE(contains(text, words), text);
}
TEST_CASE("ranks: a process that is killed before the ranks have met is not waited for") {
  rank_0_says("while another one is awaited",
              "make_store: rank 1 ended while rank 2 of 3 had not come to 127.0.0.1:");
  rank_0_says("when all have come", "rank 1 ended. Let every rank");
}

}  // namespace test::ranks::lost_in_meeting
