// Observe<Profile>, Profiler and Range: bits, units and phases, windows, failures, files, threads.
#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/observe/profile.hpp>
#include <ikebana/observe/profiler_loop.hpp>
#include <thread>

#include "test.hpp"

namespace guarantees::profile {

using namespace ikebana;
namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  nn::Linear up = register_module("up", nn::Linear(8, 16));
  nn::Linear down = register_module("down", nn::Linear(16, 8));
  at::Tensor forward(const at::Tensor& x) { return x + down(at::dropout(up(x), 0.1, true)); }
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block()), second = register_module("second", Block());
  bool throws = false;
  template <class Run>
  Loss loss(Run& run, const at::Tensor& batch) {
    at::Tensor out = run(second, run(first, batch));
    if (throws) throw std::runtime_error("the model threw");
    return {.sum = out.square().sum(), .count = batch.size(0)};
  }
};
TORCH_MODULE(Net);

at::Tensor batch_of(int step) { return at::full({4, 8}, 0.1 * step); }

/// RAII: an empty folder.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("profile" + std::to_string(ikebana::detail::process_id()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
};

const Observe<Profile> everything{.wait = 1,
                                  .warmup = 1,
                                  .active = 2,
                                  .record_shapes = true,
                                  .profile_memory = true,
                                  .with_flops = true};

template <class Trained>
std::vector<at::Tensor> parameters_after(Trained& trainer, int steps) {
  for (int step = 0; step < steps; ++step) trainer.step(batch_of(step));
  std::vector<at::Tensor> all;
  for (const at::Tensor& p : trainer.model()->parameters()) all.push_back(p.detach().clone());
  return all;
}

std::int64_t calls(const ProfileResult& result, const std::string& key, const std::string& unit) {
  std::int64_t count = 0;
  for (const ProfileRow& row : result.key_averages({.by_unit = true}))
    if (row.key == key && row.unit == unit) count += row.count;
  return count;
}

/// Trains with and without the profiler, and checks what the last window has.
template <class... Policies>
void changes_no_bit(std::int64_t microbatches, std::int64_t forwards, const char* product) {
  CAPTURE(ikebana::detail::type_name<std::tuple<Policies...>>());
  torch::manual_seed(1);
  Trainer<Net, AdamW, Policies...> plain{Net()};
  const auto expected = parameters_after(plain, 8);
  torch::manual_seed(1);
  Trainer<Net, AdamW, Policies..., Observe<Profile>> trainer{Net(), everything};
  CHECK(test::same_bits(parameters_after(trainer, 8), expected));

  const ProfileResult& result = trainer.template mechanism<Observe<Profile>>().result();
  CHECK(result.first_step == 6);
  CHECK(result.steps == 2);
  CHECK_FALSE(result.is_truncated);
  CHECK(calls(result, "ProfilerStep*", "") == 2);
  CHECK(calls(result, "phase: data", "") == 2);
  CHECK(calls(result, "phase: forward", "") == 2 * microbatches);
  CHECK(calls(result, "phase: backward", "") == 2 * microbatches);
  CHECK(calls(result, "phase: optimizer", "") == 2);
  for (const std::string unit : {"first", "second"}) {
    CAPTURE(unit);
    CHECK(calls(result, "unit: " + unit, unit) == 2 * microbatches);
    CHECK(calls(result, product, unit) == 2 * 2 * microbatches * forwards);
    CHECK(calls(result, "AddmmBackward0", unit) == 2 * 2 * microbatches);
  }
  CHECK(calls(result, "AddmmBackward0", "") == 0);
  for (const ProfileEvent& event : result.events) {
    CHECK(event.self_cpu_time_total > -1e-6);
    if (event.name == "aten::addmm") CHECK(event.flops > 0);
  }
}

TEST_CASE("profile: it changes no bit, and each unit has the operators of its passes") {
  changes_no_bit<>(1, 1, "aten::addmm");
  changes_no_bit<Checkpoint<Full>, Accumulate<2>, Observe<Memory>>(2, 2, "aten::addmm");
}

using Profiled = Trainer<Net, AdamW, Observe<Profile>>;

bool profiler_is_on() { return torch::profiler::impl::ProfilerStateBase::get() != nullptr; }

TEST_CASE("profile: a step that throws in a window ends it, and the next one is recorded") {
  Folder folder;
  Observe<Profile> values = everything;
  values.wait = values.warmup = 0, values.active = 3, values.folder = folder.path;
  std::vector<std::pair<std::int64_t, bool>> windows;
  values.on_trace_ready = [&](const ProfileResult& r) {
    windows.emplace_back(r.first_step, r.is_truncated);
  };
  Net net;
  Profiled trainer{net, values};
  trainer.step(batch_of(0));
  CHECK(profiler_is_on());
  net->throws = true;
  CHECK_THROWS(trainer.step(batch_of(1)));
  CHECK_FALSE(profiler_is_on());
  CHECK(windows == std::vector<std::pair<std::int64_t, bool>>{{0, true}});
  CHECK(trainer.mechanism<Observe<Profile>>().result().steps == 2);
  net->throws = false;
  trainer.step(batch_of(2));
  CHECK(windows.back() == std::pair<std::int64_t, bool>{2, false});
  CHECK(folder.names().size() == 4);
}

TEST_CASE("profile: a second profiler is an error, and the step that it was for changes nothing") {
  Observe<Profile> values = everything;
  values.wait = values.warmup = 0;
  Profiled first{Net(), values}, second{Net(), values};
  first.step(batch_of(0));
  const auto before = parameters_after(second, 0);
  auto message = [&] { return test::message_of<Error>([&] { second.step(batch_of(0)); }); };
  CHECK(test::contains(message(), "Observe<Profile>: another profiler of this process"));
  Profiler by_hand(values);
  CHECK(test::contains(test::message_of<Error>([&] { by_hand.start(); }), "Profiler: another"));
  CHECK(test::same_bits(parameters_after(second, 0), before));
  first.mechanism<Observe<Profile>>().stop();

  namespace profiler = torch::autograd::profiler;  // Python's profiler calls the same
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  const std::set<profiler::ActivityType> cpu{profiler::ActivityType::CPU};
  profiler::prepareProfiler(config, cpu);
  profiler::enableProfiler(config, cpu);
  CHECK(test::contains(message(), "torch.profiler's"));
  profiler::disableProfiler();
  second.step(batch_of(0));
  second.step(batch_of(0));
  second.step(batch_of(0));
  CHECK(second.mechanism<Observe<Profile>>().result().first_step == 0);
}

TEST_CASE("profile: a destructor ends the window and writes its files whole") {
  Folder folder;
  Observe<Profile> values = everything;
  values.wait = values.warmup = 0, values.active = 100, values.folder = folder.path / "new";
  values.worker_name = "worker";
  {
    Profiled trainer{Net(), values};
    CHECK(folder.names() == std::vector<std::string>{"new"});
    trainer.step(batch_of(0));
    CHECK_THROWS_AS(trainer.mechanism<Observe<Profile>>().result(), Error);
  }
  CHECK_FALSE(profiler_is_on());
  folder.path /= "new";
  const auto names = folder.names();
  REQUIRE(names.size() == 2);
  CHECK(names[0].ends_with(".key_averages.csv"));
  CHECK(names[1].starts_with("worker."));
  CHECK(names[1].ends_with(".pt.trace.json"));
  folder.path = folder.path.parent_path();
}

TEST_CASE("profile: values and folders that cannot be are errors when the trainer is made") {
  auto message = [](auto change) {
    Observe<Profile> values;
    change(values);
    const std::string made = test::message_of<Error>([&] { Profiled{Net(), values}; });
    CHECK(made == test::message_of<Error>([&] { Profiler{values}; }));
    return made;
  };
  using V = Observe<Profile>;
  CHECK(test::contains(message([](V& v) { v.active = 0; }), "active is 0. Write a number"));
  CHECK(test::contains(message([](V& v) { v.wait = -1; }), "wait is -1"));
  CHECK(test::contains(message([](V& v) { v.max_events = 0; }), "max_events is 0"));
  CHECK(test::contains(message([](V& v) { v.execution_trace = true; }), "no folder"));
  CHECK(test::contains(message([](V& v) { v.worker_name = "a/b"; }), "\"a/b\""));
  const Folder folder;
  std::filesystem::create_directory(folder.path);
  std::ofstream(folder.path / "file") << "text";
  CHECK(test::contains(message([&](V& v) { v.folder = folder.path / "file" / "traces"; }),
                       (folder.path / "file").string()));
  CHECK(folder.names().size() == 1);
}

TEST_CASE("profile: a window ends at max_events, and the rest of its cycle is not recorded") {
  Observe<Profile> values = everything;
  values.wait = values.warmup = 0, values.active = 5, values.max_events = 1;
  std::vector<std::int64_t> first;
  values.on_trace_ready = [&](const ProfileResult& r) {
    CHECK(r.is_truncated);
    CHECK(r.steps == 1);
    first.push_back(r.first_step);
  };
  Profiled trainer{Net(), values};
  parameters_after(trainer, 10);
  CHECK(first == std::vector<std::int64_t>{0, 5});
}

TEST_CASE("profile: misuse of a Profiler by hand is an error") {
  Profiler profiler({.wait = 0, .warmup = 0, .active = 2});
  CHECK_THROWS_AS(profiler.step(), Error);
  CHECK_THROWS_AS(profiler.stop(), Error);
  CHECK_THROWS_AS(profiler.result(), Error);
  profiler.start();
  CHECK_THROWS_AS(profiler.start(), Error);
  std::thread([&] {
    CHECK(test::contains(test::message_of<Error>([&] { profiler.step(); }), "another thread"));
  }).join();
  at::ones({2}).add_(1);
  profiler.stop();
  CHECK(profiler.result().is_truncated);
  CHECK(profiler.result().steps == 1);
  CHECK(test::contains(profiler.result().key_averages().table(), "aten::add_"));
  CHECK_THROWS_AS(profiler.result().key_averages({.by_shape = true}), BadValue);
  CHECK_THROWS_AS(profiler.result().key_averages().table({.rows = -1}), BadValue);
  profiler.start();
  profiler.step();
  profiler.stop();
  CHECK(profiler.step_num() == 1);
}

TEST_CASE("profile: ranges of other threads are shown while a window is open, nested and not") {
  Profiler profiler({.wait = 0, .warmup = 0, .active = 1});
  auto load = [] {
    std::thread([] { const Range outer("load"), inner(std::string("read")); }).join();
  };
  load();
  profiler.start();
  load();
  profiler.step();
  load();
  std::map<std::string, ProfileRow> rows;
  for (const ProfileRow& row : profiler.result().key_averages()) rows[row.key] = row;
  REQUIRE(rows.contains("load"));
  CHECK(rows["load"].count == 1);
  CHECK(rows["read"].count == 1);
  CHECK(rows["load"].cpu_time_total ==
        doctest::Approx(rows["load"].self_cpu_time_total + rows["read"].cpu_time_total));
  profiler.stop();
}

TEST_CASE("profile: the files of a rank carry its number") {
  const Folder folder;
  ikebana::detail::ProfilerLoop loop("Profiler", at::kCPU);
  loop.set_place({2, 4});
  loop.begin_step({.wait = 0, .warmup = 0, .active = 1, .folder = folder.path});
  loop.end_step();
  const auto names = folder.names();
  REQUIRE(names.size() == 2);
  CHECK(names[1].starts_with("rank2_"));
  std::ifstream file(folder.path / names[1]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(test::contains(text, "\"distributedInfo\": {\"rank\": 2, \"world_size\": 4}"));
  loop.stop();
}

}  // namespace guarantees::profile
