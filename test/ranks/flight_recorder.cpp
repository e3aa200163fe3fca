// Tests the records of a rank's last exchanges: ranks number them alike, they say what is pending,
// and the files that ranks leave after a real failure say which one was behind.
#include "test.hpp"

#include <thread>

#include "processes.hpp"
#include "state/folder.hpp"

using namespace ikebana;
using namespace std::chrono_literals;
using ikebana::detail::flight_file, ikebana::detail::write_file;

namespace test::ranks::flight {

namespace fs = std::filesystem;

/// Calls `f(group)` on each of n ranks, whose process groups leave files in `folder`.
template <class F>
void on_recorded(std::int64_t n, const fs::path& folder, const F& f,
                 std::chrono::milliseconds timeout = 1min) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  on_threads(n, [&](std::shared_ptr<Wire> wire) {
    f(ProcessGroup(store, wire->rank(), n, {.timeout = timeout, .flight_recorder = folder}));
  });
}

/// Returns the exchanges of groups from this number on. Ranks may have different numbers of
/// messages between two ranks, so that their records begin at different exchanges.
std::string purposes(const FlightRecord& record, std::int64_t first) {
  std::string text;
  for (const RecordedExchange& one : record.exchanges)
    if (one.is_collective() && one.number >= first)
      text += std::to_string(one.number) + " " + one.kind + " " + one.purpose + "\n";
  return text;
}

/// Checks that all ranks have the same exchanges, which have ended, and returns a record.
template <class How>
FlightRecord same_on_all(std::int64_t ranks) {
  std::vector<FlightRecord> records(static_cast<std::size_t>(ranks));
  const auto all = batches(2, 12);
  shards(Shard<How>())(ranks, [&](std::int64_t rank, auto shard) {
    Trainer trainer{make<Counted>(), SGD{.lr = 0.1}, shard};
    for (const Rows& batch : all) trainer.step(part(batch, rank, ranks));
    records[static_cast<std::size_t>(rank)] =
        trainer.template mechanism<Shard<How>>().flight_record();
  });
  std::int64_t first = 0;
  for (const FlightRecord& one : records) first = std::max(first, one.exchanges.front().number + 1);
  for (const FlightRecord& one : records) {
    CHECK(one.ranks == ranks);
    CHECK(one.exchanges.back().number > first + 30);
    CHECK(purposes(one, first) == purposes(records[0], first));
    for (const RecordedExchange& exchange : one.exchanges) {
      CAPTURE(exchange.purpose);
      CHECK(exchange.awaited.value_or(0) >= exchange.queued);
      CHECK(exchange.ended.value_or(0) >= *exchange.awaited);
      CHECK(exchange.waited <= *exchange.ended - exchange.queued + 1e-3);
    }
  }
  CHECK(compare_flight_records(records).behind.empty());
  CHECK(compare_flight_records(records).exchange == 0);
  return records[0];
}

/// Returns the exchanges of this kind and purpose.
std::vector<RecordedExchange> all_of(const FlightRecord& record, const std::string& kind,
                                     const std::string& purpose) {
  std::vector<RecordedExchange> found;
  for (const RecordedExchange& one : record.exchanges)
    if (one.kind == kind && one.purpose == purpose) found.push_back(one);
  return found;
}

TEST_CASE("flight recorder: ranks number the same exchanges alike, under every policy") {
  const FlightRecord fsdp = same_on_all<FSDP>(2);
  CHECK(fsdp.exchanges.size() == 64);
  same_on_all<FSDP>(3);
  same_on_all<ZeRO2>(2);
  same_on_all<HSDP<2>>(4), same_on_all<HSDP<2>>(6);
  const FlightRecord ddp = same_on_all<DDP>(3);
  const auto gathers = all_of(fsdp, "all_gather", "the gather of unit `first`");
  REQUIRE_FALSE(gathers.empty());
  const std::int64_t elements = 2 * (width * width + width) + width + 6;
  const std::int64_t bytes = gathers[0].sent_bytes + gathers[0].received_bytes;
  CHECK((bytes >= elements * 4 && bytes < elements * 4 + 64));  // small slices are padded
  CHECK_FALSE(all_of(fsdp, "reduce_scatter", "the reduction of unit `first`").empty());
  CHECK_FALSE(all_of(fsdp, "all_gather_object", "the opening of a step").empty());
  CHECK_FALSE(all_of(ddp, "all_gather_object", "the end of a step").empty());
  CHECK_FALSE(all_of(ddp, "reduce_scatter", "the reduction of bucket 0").empty());
  CHECK(contains(ddp.table(), "the end of a step"));
}

TEST_CASE("flight recorder: another thread sees which exchange is pending") {
  std::atomic<bool> is_seen = false;
  on_groups(2, [&](const ProcessGroup& group) {
    Counted model = make<Counted>();
    Trainer trainer{model, SGD{.lr = 0.1}, Shard<DDP>{.process_group = group}};
    const auto batch = part(batches(1, 4)[0], group.rank(), 2);
    trainer.step(batch);
    if (group.rank() == 1)
      model->during_forward = [&] {
        while (!is_seen) std::this_thread::sleep_for(1ms);
      };
    std::thread watcher([&] {
      if (group.rank() == 1) return;
      for (int looks = 0; looks < 60'000 && !is_seen; ++looks) {
        const FlightRecord now = trainer.mechanism<Shard<DDP>>().flight_record();
        for (const RecordedExchange& one : now.exchanges)
          if (one.awaited && !one.ended && one.purpose == "the reduction of bucket 0")
            is_seen = true;
        std::this_thread::sleep_for(1ms);
      }
      CHECK(is_seen);
      is_seen = true;
    });
    trainer.step(batch);
    watcher.join();
    CHECK(trainer.mechanism<Shard<DDP>>().flight_record().exchanges.back().ended.has_value());
  });
}

TEST_CASE("flight recorder: after an exception each rank leaves a file, and starts anew") {
  const Folder folder;
  write_file(folder.path / flight_file(1, 0), "of a former training\n");
  std::vector<std::string> texts(2);
  on_recorded(2, folder.path, [&](const ProcessGroup& group) {
    Counted model = make<Counted>();
    Trainer trainer{model, SGD{.lr = 0.1}, Shard<FSDP>{.process_group = group}};
    const fs::path own = folder.path / flight_file(1, group.rank());
    CHECK_FALSE(fs::exists(own));
    const auto batch = part(batches(1, 4)[0], group.rank(), 2);
    trainer.step(batch);
    if (group.rank() == 1) model->during_forward = [] { throw std::runtime_error("no forward"); };
    texts[static_cast<std::size_t>(group.rank())] = message_of([&] { trainer.step(batch); });
    CHECK(fs::exists(own));
    model->during_forward = {};
    trainer.step(batch);
    const FlightRecord now = trainer.mechanism<Shard<FSDP>>().flight_record();
    CHECK(now.meeting == 1);
    CHECK(now.exchanges[0].number == 1);
    CHECK(now.exchanges[0].purpose == "the opening of a step");
    CHECK(read_flight_record(own).meeting == 0);
  });
  CHECK_MESSAGE(contains(texts[0], "rank 1: no forward"), texts[0]);
  CHECK_MESSAGE(contains(texts[0], flight_file(1, 0)), texts[0]);
  CHECK_FALSE(contains(texts[0], "last exchanges"));  // the reason is known
  const FlightComparison found = compare_flight_records(folder.path);
  CHECK(found.missing.empty());
  CHECK(found.exchange > 0);
}

/// One of three processes. Rank 1 sleeps longer than the others wait, or is killed.
TEST_CASE("flight recorder: one of several processes" * doctest::skip()) {
  const std::string name = std::getenv("IKEBANA_TEST_ROLE"),
                    folder = std::getenv("IKEBANA_TEST_FOLDER");
  if (name != "without files") setenv("IKEBANA_FLIGHT_RECORDER", (folder + "/flight").c_str(), 1);
  const auto role = processes::Role::of_environment(name == "sleeps" ? 6s : 60s);
  Counted model = make<Counted>();
  Trainer trainer{model, SGD{.lr = 0.1}, Shard<DDP>{.process_group = role.group}};
  const auto batch = part(batches(1, 6)[0], role.group.rank(), 3);
  trainer.step(batch), trainer.step(batch);
  if (role.group.rank() == 1)
    model->during_forward = [&] {
      if (name == "sleeps") std::this_thread::sleep_for(10s);
      else raise(SIGKILL);
    };
  role.file() << message_of<Error>([&] { trainer.step(batch); });
  std::quick_exit(0);
}

TEST_CASE("flight recorder: the files say which rank did not come to which exchange") {
  processes::Processes all("sleeps", 3, "flight recorder: one of several processes");
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(all.ended(rank) == 0);
  const FlightComparison found = compare_flight_records(all.folder() / "flight");
  CHECK_MESSAGE(found.behind == std::vector<std::int64_t>{1}, found.text);
  CHECK(found.missing.empty());
  CHECK_MESSAGE(contains(found.text, "rank 1"), found.text);
  CHECK_MESSAGE(contains(found.text, "bucket"), found.text);
  for (std::size_t rank : {0u, 2u}) {
    const std::string text = all.written(rank);
    CHECK_MESSAGE(contains(text, "The last exchanges of this rank were"), text);
    CHECK_MESSAGE(contains(text, "not ended"), text);
    const std::string file = flight_file(1, static_cast<std::int64_t>(rank));
    CHECK_MESSAGE(contains(text, "/flight/" + file), text);
    CHECK_MESSAGE(contains(text, "(step 2)"), text);
  }
}

TEST_CASE("flight recorder: a rank that was killed is missing; without a folder errors say how") {
  for (const bool has_files : {true, false}) {
    processes::Processes all(has_files ? "killed with files" : "without files", 3,
                             "flight recorder: one of several processes");
    for (std::size_t rank : {0u, 2u}) CHECK(all.ended(rank) == 0);
    const std::string text = all.written(0);
    CHECK_MESSAGE(contains(text, "rank 1 ended"), text);
    CHECK_MESSAGE(contains(text, "The last exchanges of this rank were"), text);
    CHECK_MESSAGE(contains(text, "set IKEBANA_FLIGHT_RECORDER") != has_files, text);
    if (!has_files) {
      CHECK_FALSE(fs::exists(all.folder() / "flight"));
      continue;
    }
    const FlightComparison found = compare_flight_records(all.folder() / "flight");
    CHECK(found.missing == std::vector<std::int64_t>{1});
    CHECK_MESSAGE(contains(found.text, "rank 1 left no record"), found.text);
    CHECK_MESSAGE(found.exchange > 0, found.text);
  }
}

FlightRecord made_of(std::int64_t rank, std::vector<RecordedExchange> exchanges) {
  return {.rank = rank, .ranks = 2, .exchanges = std::move(exchanges)};
}
RecordedExchange ended(std::int64_t number, const std::string& purpose) {
  return {.number = number,
          .kind = "all_gather",
          .purpose = purpose,
          .dtype = "Float",
          .queued = 1.5,
          .awaited = 1.5,
          .ended = 1.625,
          .waited = 0.125};
}

TEST_CASE("flight recorder: exchanges that differ are found, also below the last one") {
  const std::vector records{made_of(0, {ended(7, "a"), ended(8, "b"), ended(9, "c")}),
                            made_of(1, {ended(7, "a"), ended(8, "c")})};
  const FlightComparison found = compare_flight_records(records);
  CHECK(found.exchange == 8);
  CHECK(contains(found.text, "At exchange 8 rank 0 made b (all_gather), and rank 1 made c"));
}

TEST_CASE("flight recorder: a file gives back the record; a damaged one is refused") {
  const Folder folder;
  const fs::path path = folder.path / flight_file(1, 1);
  RecordedExchange last = ended(2, "a, \"quoted\" call");
  last.ended = {};
  const FlightRecord record = made_of(1, {ended(1, "a"), last});
  write_file(path, record.csv());
  const FlightRecord read = read_flight_record(path);
  CHECK(read.csv() == record.csv());
  CHECK(read.exchanges[1].purpose == last.purpose);
  CHECK_FALSE(read.exchanges[1].ended.has_value());
  CHECK(read.exchanges[0].ended == 1.625);
  std::string cut = record.csv();
  cut.resize(cut.size() - 3);
  write_file(path, cut);
  CHECK_THROWS_AS(read_flight_record(path), BadFile);
  write_file(path, record.csv() + "1,2,1,0,x,all_gather,a,Float,0,0,1,1,1,0\n");
  CHECK(contains(message_of<BadFile>([&] { read_flight_record(path); }), "line 4"));
  CHECK_THROWS_AS(read_flight_record(folder.path / "other.csv"), FileFailed);
}

TEST_CASE("flight recorder: records of different trainings are refused") {
  const Folder folder;
  CHECK(contains(message_of<BadValue>([&] { compare_flight_records(folder.path); }), "no file"));
  FlightRecord other = made_of(1, {ended(1, "a")});
  other.ranks = 3;
  const std::vector mixed{made_of(0, {ended(1, "a")}), other};
  CHECK(contains(message_of<BadValue>([&] { compare_flight_records(mixed); }), "one training"));
  const std::vector twice{mixed[0], mixed[0]};
  CHECK_THROWS_AS(compare_flight_records(twice), BadValue);
}

TEST_CASE("flight recorder: a folder that cannot be made is an error before training") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  CHECK_THROWS_AS(ProcessGroup(store, 0, 2, {.flight_recorder = "/proc/no/folder"}), FileFailed);
}

}  // namespace test::ranks::flight
