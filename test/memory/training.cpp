// Tests a history of a training: kinds and units of its memory, and the files that Python reads.
#include "test.hpp"

#include <cstdlib>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/memory.hpp>

#include "../../examples/models/gpt.hpp"

using namespace ikebana;

namespace test::memory_of_training {

const GPTConfig config{.layers = 2, .width = 64, .heads = 2, .context = 32};
using Recipe = Trainer<GPT, AdamW, Observe<Memory>>;

/// Makes a history of three steps, of which the last one ran out of memory if `fails`.
struct Trained {
  MemoryHistory history;
  std::optional<Recipe> trainer;
  Report report;
  std::int64_t peak = 0;  // since the history began, as a counter says

  explicit Trained(bool fails = false) {
    bridge::MemoryCounter counter(at::kCPU);
    const MemoryScope scope("training <1>");
    trainer.emplace(GPT(config), Observe<Memory>{.by_unit = true});
    for (int step = 0; step < 3; ++step) {
      const MemoryScope of_step("step " + std::to_string(step));
      const Tokens batch = random_batch(config, 4, 32);
      std::optional<MemoryLimit> limit;
      if (fails && step == 2) limit.emplace(counter.now() + 100000);
      if (limit) CHECK_THROWS_AS(trainer->step(batch), OutOfMemory);
      else report = trainer->step(batch);
    }
    peak = counter.peak();
  }
  /// Returns the bytes in use of a kind and, if `unit` is not empty, of a unit.
  std::int64_t in_use(const MemoryRecord& record, const std::string& kind,
                      const std::string& unit = "") {
    std::int64_t bytes = 0;
    for (const MemoryBlock& block : record.blocks)
      if (block.kind == kind && (unit.empty() || block.unit == unit)) bytes += block.bytes;
    return bytes;
  }
};

TEST_CASE("memory history: parameters, state and gradients of each unit are those of an estimate") {
  Trained trained;
  const Estimate expected =
      estimate<Trainer<GPT, AdamW>>([] { return GPT(config); }, random_batch(config, 4, 32));
  const MemoryRecord record = trained.history.record();
  CHECK(trained.in_use(record, "parameter") == expected.parameters);
  CHECK(trained.in_use(record, "parameter", "block1") == expected.units[2].parameters);
  // Two step counts are made with the trainer, in no phase of a step.
  CHECK(trained.in_use(record, "optimizer state") == expected.optimizer_state - 2 * 4);
  CHECK(trained.in_use(record, "gradient") == 0);  // the step has dropped them
  CHECK(trained.in_use(record, "temporary") == 0);

  std::int64_t gradients = 0;
  for (const MemoryEvent& event : record.events) {
    const bool is_last = event.where->labels.size() == 2 && event.where->labels[0] == "step 2";
    if (event.action == MemoryEvent::Action::Alloc && is_last && event.kind == "gradient" &&
        event.unit == "block0")
      gradients += event.bytes;
  }
  CHECK(gradients == expected.units[1].gradients);
}

TEST_CASE("memory history: its peak is that of the report, in the same phase and unit") {
  Trained trained;
  const MemoryRecord record = trained.history.record();
  std::int64_t now = 0, peak = 0;
  for (const MemoryEvent& event : record.events) {
    if (event.number == 0) continue;  // memory that existed before
    now += event.action == MemoryEvent::Action::Alloc ? event.bytes : -event.bytes;
    peak = std::max(peak, now);
  }
  CHECK(peak + record.before == trained.peak);
  CHECK(now + record.before == record.in_use);
  CHECK(trained.report.peak_bytes == trained.peak);
  for (const MemoryBlock& block : record.blocks)
    CHECK(block.where->labels.back() == "training <1>");
}

TEST_CASE("explain_peak: what an error would say, without one, and it changes nothing") {
  const Tokens batch = random_batch(config, 8, 32);
  Trainer<GPT, AdamW> trainer{GPT(config)};
  const Estimate expected =
      estimate<Trainer<GPT, AdamW>>([] { return GPT(config); }, shapes(batch));
  for (int i = 0; i < 2; ++i) {
    const auto before = trainer.state();
    const std::string text = trainer.explain_peak(batch);
    CAPTURE(text);
    CHECK(same_state(before, trainer.state()));
    CHECK(text.starts_with("A step in 1 microbatch: memory of training"));
    CHECK(contains(text, "in " + std::string(ikebana::detail::phase_name(expected.peak_phase))));
    CHECK(contains(text, ikebana::detail::short_bytes(expected.peak)));
    CHECK(contains(text, "peak in forward"));
    CHECK(contains(text, "peak in optimizer"));
    CHECK(contains(text, "Checkpoint<Full>"));
    trainer.step(batch);
  }
}

TEST_CASE("memory snapshot: a folder that does not exist is an error that names the file") {
  MemoryHistory history;
  for (const bool is_page : {true, false}) {
    const std::string text = message_of<FileFailed>([&] {
      is_page ? save_memory_page("/nowhere/file", history)
              : save_memory_snapshot("/nowhere/file", history);
    });
    CHECK(contains(text, "cannot create `/nowhere/file"));
    CHECK(contains(text, "create its folder first"));
  }
}

/// Writes what Python is to find.
void write_expected(const std::filesystem::path& folder, const MemoryRecord& record,
                    std::int64_t peak) {
  std::map<std::string, std::int64_t> kinds;
  for (const MemoryBlock& block : record.blocks) kinds[block.kind] += block.bytes;
  ikebana::detail::JsonWriter json;
  json.object([&] {
    json.member("in_use", record.in_use), json.member("before", record.before);
    json.member("peak", peak), json.member("events", record.events.size());
    json.member("dropped", record.dropped);
    json.object("kinds", [&] {
      for (const auto& [kind, bytes] : kinds) json.member(kind, bytes);
    });
  });
  std::ofstream(folder / "expected.json") << std::move(json).text();
}

// snapshots.py runs this case with a folder of its own, and reads the files.
TEST_CASE("memory snapshot: files for Python") {
  const char* given = std::getenv("IKEBANA_MEMORY_FILES");
  const std::filesystem::path folder =
      given != nullptr ? given : std::filesystem::temp_directory_path() / "ikebana_memory";
  std::filesystem::create_directories(folder);
  const at::Tensor before = at::ones({1000});
  Trained trained(/*fails=*/true);
  const MemoryRecord record = trained.history.record();
  save_memory_snapshot(folder / "snapshot.pickle", record);
  save_memory_page(folder / "page.html", record);
  write_expected(folder, record, trained.peak);
  CHECK(std::filesystem::file_size(folder / "snapshot.pickle") > 10000);
  CHECK(std::filesystem::file_size(folder / "page.html") > 10000);
  if (given == nullptr) std::filesystem::remove_all(folder);
}

}  // namespace test::memory_of_training
