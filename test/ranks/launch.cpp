// Tests programs that are started as several ranks: by launch, by torchrun and by mpirun.
#include "test.hpp"

#include <signal.h>

#include <chrono>
#include <ikebana/shard/launch.hpp>
#include <ikebana/shard/store.hpp>
#include <iostream>
#include <thread>

#include "started/command.hpp"

using namespace ikebana;

namespace test::ranks::started {

TEST_CASE("launch: each rank has its variables and no descriptors of the launcher or of others") {
  const Ended alone = run(program("describe 1"));
  const std::string begin = "rank 0/1 local 0/1 by  at  port no listens no descriptors ";
  REQUIRE_MESSAGE(alone.text.starts_with(begin), alone.text);
  const int open = std::atoi(alone.text.c_str() + begin.size());
  const Ended three =
      run("unset OMP_NUM_THREADS; TORCHELASTIC_RUN_ID=old taskset -c 0 " + program("describe 3"));
  CAPTURE(three.text);
  CHECK(three.code == 0);
  CHECK(count(three.text, "\n") == 3);
  for (const char* rank : {"0", "1", "2"})
    CHECK(contains(three.text, std::string("rank ") + rank + "/3 local " + rank +
                                   "/3 by launch at 127.0.0.1 port yes listens " +
                                   (*rank == '0' ? "yes descriptors " : "no descriptors ") +
                                   std::to_string(*rank == '0' ? open + 1 : open) +
                                   " threads 1 elastic -"));
  const auto share = std::max(1u, std::thread::hardware_concurrency() / 2);
  CHECK(contains(run("unset OMP_NUM_THREADS; " + program("describe 2")).text,
                 " threads " + std::to_string(share)));
  CHECK(contains(run("OMP_NUM_THREADS=7 " + program("describe 2")).text, " threads 7"));
}

TEST_CASE("launch: one rank or fewer train in this process, as does a function of no argument") {
  for (const char* ranks : {"1", "0", "-3"})
    CHECK(run(program(std::string("void ") + ranks)).text == "trained\n");
  const Ended two = run(program("void 2"));
  CHECK(two.text == "trained\ntrained\n");
  CHECK(two.code == 0);
}

TEST_CASE("launch: a rank that is started otherwise trains and starts none") {
  const std::string by_hand =
      "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 " + program("describe 5");
  CHECK(contains(run(by_hand).text, "rank 1/2 local 1/2 by RANK and WORLD_SIZE"));
  CHECK(contains(run("RANK=0 WORLD_SIZE=1 " + program("describe 5")).text, "rank 0/1"));
  const std::string step = "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 ";
  CHECK(count(run(step + program("describe 2")).text, "by launch") == 2);  // srun runs anything
}

TEST_CASE("launch: variables that cannot be are an error of one line") {
  const Ended ended = run("RANK=2 WORLD_SIZE=2 " + program("describe 2"));
  CHECK(ended.code == 1);
  CHECK(ended.text.starts_with("error: World: RANK is \"2\" and WORLD_SIZE is 2"));
  const Ended nested = run("IKEBANA_LAUNCHER=1 RANK=0 WORLD_SIZE=1 " + program("describe 2"));
  CHECK(contains(nested.text, "inherited the variable"));
}

TEST_CASE("launch: an exception is reported with the rank, and alike where the program is alone") {
  const std::string text = "sample 3 was not read\n  by: row 7 of 5\n";
  const Ended alone = run(program("throw 1"));
  CHECK(alone.text == "error: " + text);
  CHECK(alone.code == 1);
  const Ended three = run(program("throw 3"));
  CHECK(three.text.starts_with("rank 2 of 3: " + text +
                               "launch: rank 2 of 3 failed with exit code 1; ending the other"));
  CHECK(contains(three.text, "The last lines of its stderr:\n  rank 2 of 3: sample 3"));
  CHECK(three.code == 1);
  CHECK(contains(run(program("'throw a number' 2")).text, "rank 1 of 2: an exception that is not"));
}

TEST_CASE(
    "launch: names the rank that failed, by code or signal, and quotes the end of its stderr") {
  const Ended code = run(program("code 2"));
  CAPTURE(code.text);
  CHECK(code.code == 5);
  CHECK(contains(code.text, "line 1\nline 2\n"));
  const std::string end = code.text.substr(code.text.find("The last lines"));
  CHECK(end.starts_with("The last lines of its stderr:\n  line 11\n  line 12\n"));
  CHECK(end.ends_with("  line 30\n  whole\n"));
  const Ended killed = run(program("kill 2"));
  CHECK(killed.code == 128 + SIGKILL);
  CHECK(contains(killed.text, "rank 1 of 2 was ended by SIGKILL, as by the system where memory"));
  const Ended zero = run(program("256 2"));  // an exit code whose lower 8 bits are 0
  CHECK(zero.code == 1);
  CHECK(contains(zero.text, "failed with exit code 1. It wrote nothing to stderr."));
}

TEST_CASE("launch: a rank that failed since another did is not the one that is named") {
  const Ended ended = run(program("follow 3"));
  CHECK(contains(ended.text, "rank 0 of 3: another rank failed\n"));
  CHECK(contains(ended.text, "launch: rank 2 of 3 failed with exit code 5. The last"));
  CHECK(ended.code == 5);
  CHECK(run("RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1 " + program("follow 2")).code == 75);
}

TEST_CASE("launch: a rank that ignores SIGTERM is killed after some seconds") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(run(program("stubborn 2")).code == 5);
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took > std::chrono::seconds(5));
  CHECK(took < std::chrono::seconds(50));
}

/// Runs `program` in a process group of its own, waits until both of its ranks are ready, then runs
/// `then`.
Ended in_background(const std::string& program, const std::string& then) {
  return run("file=$(mktemp); setsid env --default-signal " + program.substr(program.find('\'')) +
             " >$file 2>&1 & p=$!; reach() { for i in $(seq 2000); do "
             "[ $(grep -c \"$1\" $file) = 2 ] && return; sleep 0.01; done; echo \"no $1\"; }; "
             "reach ready; " +
             then + "; wait $p; echo code $?; cat $file; rm $file");
}

TEST_CASE("launch: passes signals on, once each") {
  const Ended ended = in_background(program("hear 2"),
                                    "kill -USR1 $p; reach 'heard 10'; kill -USR2 $p; "
                                    "reach 'heard 12'; kill -HUP $p; reach 'heard 1$'; "
                                    "kill -INT -$p; reach 'heard 2'; kill -INT $p; "
                                    "sleep 0.1; kill $p");
  CAPTURE(ended.text);
  CHECK(contains(ended.text, "code 0\n"));
  CHECK(count(ended.text, "heard 15\n") == 2);
  CHECK(count(ended.text, "heard 2\n") == 2);  // its group got it, and it got it again
  CHECK(!contains(ended.text, "no "));
  const Ended by = in_background(program("sleep 2"), "kill -INT $p");
  CHECK(contains(by.text, "code 130\n"));
  CHECK(contains(by.text, "by SIGINT, which launch passed on to all ranks."));
  CHECK(!contains(by.text, "ending the other"));
}

TEST_CASE("launch: ranks are killed with the process that started them") {
  // The pipe of the ranks' stdout ends with the last of them.
  const auto start = std::chrono::steady_clock::now();
  const Ended ended =
      run("{ " + program("sleep 2").substr(sizeof "timeout 60") +
          " & echo pid $!; wait; } | { read a; read b; read c; "
          "kill -KILL $(printf '%s\\n' \"$a\" \"$b\" \"$c\" | sed -n 's/pid //p'); cat; }");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(50));
  CHECK(ended.code == 0);
}

TEST_CASE("launch: only rank 0 reads what the program is given") {
  const Ended ended = run("head -c 60000 /dev/zero | tr '\\0' A | " + program("read 2"));
  CHECK(contains(ended.text, "read 65\n"));
  CHECK(contains(ended.text, "read -1\n"));
}

/// Exchanges a key with the next rank, twice with stores of their own.
int exchange(const World& world) {
  using namespace std::chrono_literals;
  if (std::getenv("IKEBANA_TEST_FAILS") && world.restart_count == 0) {
    auto store = make_store(world, 30s);  // leaves keys behind
    if (world.rank == 1) throw std::runtime_error("the first time");
    store->get("never set");
  }
  for (const char* value : {"first", "second"}) {
    auto store = make_store(world, 30s);
    store->set("from " + std::to_string(world.rank), value);
    const auto next = std::to_string((world.rank + 1) % world.size);
    std::cout << world.started_by + " " + std::to_string(world.rank) + " got " +
                     store->get_to_str("from " + next) + " from " + next + "\n";
    finish_store(*store, world, 30s);
  }
  std::cout << std::flush;
  return 0;
}

TEST_CASE("launch: a rank that meets others" * doctest::skip()) {
  std::string text[] = {own_path(), "-tc=launch: a rank that meets others", "--no-skip"};
  char* argv[] = {text[0].data(), text[1].data(), text[2].data(), nullptr};
  const char* ranks = std::getenv("IKEBANA_TEST_RANKS");
  CHECK(launch(3, argv, ranks ? std::atoi(ranks) : 2, exchange) == 0);
}

const std::string meets =
    "'" + own_path().string() + "' '-tc=launch: a rank that meets others' --no-skip";

void check_exchange(const Ended& ended, const std::string& by) {
  CAPTURE(ended.text);
  CHECK(ended.code == 0);
  for (const char* value : {"first", "second"}) {
    CHECK(contains(ended.text, by + " 0 got " + value + " from 1\n"));
    CHECK(contains(ended.text, by + " 1 got " + value + " from 0\n"));
  }
}

TEST_CASE("launch: ranks of launch meet at a store; one alone has a store, too") {
  check_exchange(run(meets), "launch");
  const Ended alone = run("IKEBANA_TEST_RANKS=1 " + meets);
  CHECK(alone.code == 0);
  CHECK(contains(alone.text, " 0 got second from 0\n"));
}

TEST_CASE("launch: ranks of mpirun meet at a store") {
  const Ended ended = run(mpirun(meets));
  REQUIRE_MESSAGE(ended.code != 127, "mpirun is missing; scripts/setup test installs it");
  check_exchange(ended, "mpirun");
}

TEST_CASE("launch: ranks of torchrun meet at its store, also those that it starts anew") {
  const std::string command = torchrun(meets);
  if (command.empty()) {
    MESSAGE("skipped: there is no Python with torch; scripts/setup test installs one");
    return;
  }
  check_exchange(run(command), "torchrun");
  const Ended again = run("IKEBANA_TEST_FAILS=1 " + torchrun("--max-restarts 1 " + meets));
  CHECK(contains(again.text, "rank 1 of 2: the first time"));
  check_exchange(again, "torchrun");
}

}  // namespace test::ranks::started
