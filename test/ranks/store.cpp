// The store at which ranks meet: here each rank is a thread, and something goes wrong.
#include "test.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <ikebana/posix/sockets.hpp>
#include <ikebana/shard/store.hpp>
#include <thread>

using namespace ikebana;
using namespace std::chrono_literals;

namespace test::ranks::stores {

using Listener = ikebana::detail::Listener;

/// Returns a port that was free just now.
std::int64_t free_port() { return Listener().port(); }

World world(std::int64_t rank, std::int64_t size, std::int64_t port) {
  return {.rank = rank, .size = size, .master_addr = "127.0.0.1", .master_port = port};
}

/// Calls `f` for each world on a thread of its own; returns the texts of their exceptions.
std::vector<std::string> each(const std::vector<World>& worlds,
                              const std::function<void(const World&)>& f) {
  std::vector<std::string> errors(worlds.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < worlds.size(); ++i)
    threads.emplace_back([&, i] { errors[i] = message_of<Error>([&] { f(worlds[i]); }); });
  threads.clear();
  return errors;
}
/// Lets ranks meet within a short time, in which ranks of a busy machine do meet.
std::vector<std::string> meet(const std::vector<World>& worlds) {
  return each(worlds, [](const World& one) { make_store(one, 2s); });
}

TEST_CASE("store: ranks share their keys, and two stores of the same ranks do not") {
  const std::int64_t port = free_port();
  const std::vector<World> three{world(0, 3, port), world(1, 3, port), world(2, 3, port)};
  const auto errors = each(three, [](const World& one) {
    auto first = make_store(one, 20s), second = make_store(one, 20s);
    first->add("ranks", 1);
    if (first->add("asked", 1) == 3) first->set("all asked", "1");
    first->wait({"all asked"});
    if (first->add("ranks", 0) != 3) throw Error("not all ranks have one store");
    if (second->check({"ranks"})) throw Error("a key of another store");
    finish_store(*second, one, 20s);
    finish_store(*first, one, 20s);
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("store: one rank needs no address") {
  auto store = make_store(World{}, 1s);
  store->set("key", "value");
  CHECK(store->get_to_str("key") == "value");
  finish_store(*store, World{}, 1s);
}

TEST_CASE("store: rank 0 listens at a socket that it was given") {
  Listener listener;
  World first = world(0, 2, listener.port());
  first.listen_fd = dup(listener.descriptor());  // the store closes it
  CHECK(meet({first, world(1, 2, listener.port())}) == std::vector<std::string>(2));
  // A descriptor that has become something else is left alone.
  World other = world(0, 2, free_port());
  other.listen_fd = 2;
  CHECK(meet({other, world(1, 2, other.master_port)}) == std::vector<std::string>(2));
}

TEST_CASE("store: a port in use, and an address that does not answer, are named in time") {
  const auto start = std::chrono::steady_clock::now();
  Listener silent;
  const std::string port = std::to_string(silent.port()), at = "127.0.0.1:" + port;
  const std::string in_use =
      message_of<BadValue>([&] { make_store(world(0, 2, silent.port()), 500ms); });
  CHECK(contains(in_use, "rank 0 of 2 cannot listen at port " + port + ": another program uses"));
  CHECK(contains(in_use, "Set MASTER_PORT"));
  const std::string no_store =
      message_of<RankFailed>([&] { make_store(world(1, 2, silent.port()), 500ms); });
  CHECK(contains(no_store, at + " within 0.5 s: what listens there does not answer as a store"));
  const std::int64_t unused = free_port();
  const std::string refused =
      message_of<RankFailed>([&] { make_store(world(1, 2, unused), 500ms); });
  CHECK(contains(refused, std::to_string(unused) + " within 0.5 s: Connection refused. Is rank 0"));
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  World nowhere = world(1, 2, unused);  // a resolver of names has limits of its own
  nowhere.master_addr = "no.such.host.invalid";
  CHECK(contains(message_of<RankFailed>([&] { make_store(nowhere, 500ms); }), "no.such.host"));
}

TEST_CASE("store: a rank that does not come is named by rank 0") {
  const std::int64_t port = free_port();
  const auto errors = meet({world(0, 3, port), world(1, 3, port)});
  CHECK(contains(errors[0], "rank 2 of 3 has not come to 127.0.0.1:" + std::to_string(port)));
  CHECK(!errors[1].empty());  // one of two texts: whose time is over first
}

TEST_CASE("store: ranks that contradict each other are errors") {
  std::int64_t port = free_port();
  const auto sizes = meet({world(0, 2, port), world(1, 3, port)});
  for (const std::string& error : sizes)
    CHECK(contains(error, "rank 1 was started as one of 3, and rank 0 as one of 2"));
  port = free_port();
  const auto ranks = meet({world(0, 3, port), world(1, 3, port), world(1, 3, port)});
  // Rank 0 knows both of them if the second one asks before the first one has taken its seat.
  const bool knows_both = contains(ranks[0], "two processes are rank 1");
  CHECK((knows_both || contains(ranks[0], "rank 2 of 3 has not come")));
  CHECK(contains(ranks[0], "its own RANK"));
  CHECK(contains(ranks[1] + ranks[2], "its own RANK"));
}

TEST_CASE("store: ranks of two trainings at one address do not mix") {
  const std::int64_t port = free_port();
  std::vector<World> worlds{world(0, 2, port), world(1, 2, port), world(1, 2, port)};
  worlds[0].job = worlds[1].job = "a";
  worlds[2].job = "b";
  const auto errors = meet(worlds);
  CHECK(errors[0].empty());
  CHECK(errors[1].empty());
  CHECK(contains(errors[2], "but rank 0 did not answer there within 2.0 s"));
}

TEST_CASE("store: values that cannot be are refused before anything is connected") {
  auto error = [](const World& one, std::chrono::milliseconds timeout) {
    return message_of<BadValue>([&] { make_store(one, timeout); });
  };
  CHECK(contains(error(World{.size = 2}, 1s), "master_addr is empty"));
  CHECK(contains(error(world(0, 2, 0), 1s), "master_port is 0"));
  CHECK(contains(error(world(0, 2, 1), 0ms), "timeout is 0 ms"));
}

TEST_CASE("store: rank 0 finishes after all others, or names how many did not") {
  const std::int64_t port = free_port();
  const std::vector<World> two{world(0, 2, port), world(1, 2, port)};
  std::atomic<bool> finished = false;
  auto errors = each(two, [&](const World& one) {
    auto store = make_store(one, 20s);
    if (one.rank == 1) std::this_thread::sleep_for(200ms), finished = true;
    finish_store(*store, one, 20s);
    if (!finished) throw Error("rank 0 was first");
  });
  CHECK(errors == std::vector<std::string>(2));
  errors = each(two, [&](const World& one) {
    auto store = make_store(one, 20s);
    if (one.rank == 0) finish_store(*store, one, 200ms);
  });
  CHECK(contains(errors[0], "waited 0.2 s for the other ranks, of which 0 have finished"));
}

}  // namespace test::ranks::stores
