// Each rule of the diagnosis, on measurements that differ from a healthy training's in one thing.
#include <filesystem>
#include <fstream>
#include <ikebana/posix/process.hpp>
#include <ikebana/posix/process_use.hpp>
#include <ikebana/profiling/diagnosis.hpp>

#include "test.hpp"

namespace {

using namespace ikebana;
using ikebana::detail::TrainingFacts;

/// Measurements of a training, and the facts beside them.
struct Measured {
  RunProfile profile;
  TrainingFacts facts;
};

/// Half of its time is in products at their bound, and half in operators that move memory at
/// theirs.
Measured healthy() {
  Measured m;
  RunProfile& p = m.profile;
  p.step_seconds.assign(20, 0.01);
  p.step = time_statistics(p.step_seconds);
  p.conditions.is_optimized = true;
  p.conditions.compiler = "GCC 12.2.0";
  p.conditions.cores = p.conditions.threads = 4;
  p.conditions.vector_code = "AVX512";
  p.conditions.instruction_sets = {"avx2", "avx512bw"};
  p.profile.steps = 1;
  auto add = [&](const char* name, double seconds, std::int64_t flops, std::int64_t bytes) {
    ProfileRow row;
    row.key = name, row.count = 10, row.self_cpu_time_total = row.cpu_time_total = 1e6 * seconds;
    p.operators.push_back(row);
    p.roofline.operators.push_back(
        {.name = name, .calls = 10, .flops = flops, .bytes = bytes, .seconds = seconds});
  };
  add("aten::mm", 0.005, 400'000'000, 1'000'000);
  add("aten::relu", 0.003, 0, 25'000'000);
  add("aten::copy_", 0.002, 0, 18'000'000);
  p.roofline.bounds.matmul = {{at::kFloat, 1e11}, {at::kBFloat16, 1e11}};
  p.roofline.bounds.bytes_per_second = 1e10;
  m.facts.traits.operators = 30;
  m.facts.launch_seconds = 1e-6;
  m.facts.has_bfloat16 = true;
  return m;
}

std::vector<Advice> advice(const Measured& m) {
  return ikebana::detail::diagnose(m.profile, m.facts);
}

/// Returns the one piece of advice that a change of the healthy training causes.
Advice caused_by(const std::function<void(RunProfile&, TrainingFacts&)>& change) {
  Measured m = healthy();
  change(m.profile, m.facts);
  const std::vector<Advice> found = advice(m);
  CAPTURE(found.size());
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].finding.empty());
  CHECK_FALSE(found[0].evidence.empty());
  CHECK_FALSE(found[0].change.empty());
  return found[0];
}

}  // namespace

TEST_CASE("the diagnosis has nothing to say of a healthy training") {
  const Measured m = healthy();
  CHECK(advice(m).empty());
  CHECK(ikebana::detail::bound_of(m.profile, m.facts) == "matrix products");
  Measured nothing;
  nothing.profile.conditions.is_optimized = true;
  CHECK(advice(nothing).empty());
  CHECK(ikebana::detail::bound_of(nothing.profile, nothing.facts).empty());
}

TEST_CASE("the diagnosis says how many workers make batches as fast as steps") {
  auto waits = [](RunProfile& p, double seconds) {
    p.waiting = time_statistics(std::vector<double>(20, seconds));
  };
  const Advice none = caused_by([&](RunProfile& p, TrainingFacts&) { waits(p, 0.005); });
  CHECK(none.change.find("DataLoader") != std::string::npos);
  CHECK(*none.expected_gain == doctest::Approx(0.5));
  // Without a worker a batch takes 5 ms, and a step the other 5 ms.
  const Advice two =
      caused_by([&](RunProfile& p, TrainingFacts& f) { waits(p, 0.005), f.is_data_loader = true; });
  CHECK(two.change == "num_workers 0 -> 2");
  CHECK(two.value == 2);
  CHECK(*two.expected_gain == doctest::Approx(0.5));
  // Two workers make a batch each in two steps, that is in 20 ms, and a step needs one in 2 ms.
  auto eleven = [&](RunProfile& p, TrainingFacts& f) {
    waits(p, 0.008), f.is_data_loader = true, f.num_workers = 2;
  };
  const Advice three = caused_by(eleven);
  CHECK(three.change == "num_workers 2 -> 3");  // a fourth core computes the steps
  CHECK(*three.expected_gain == doctest::Approx(1.0 / 3));
  CHECK(caused_by([&](RunProfile& p, TrainingFacts& f) {
          eleven(p, f), f.has_idle_cores = true;
        }).value == 11);
  const Advice cheaper =
      caused_by([&](RunProfile& p, TrainingFacts& f) { eleven(p, f), f.num_workers = 3; });
  CHECK(cheaper.change.find("cheaper") != std::string::npos);
  CHECK_FALSE(cheaper.expected_gain.has_value());
}

TEST_CASE("the diagnosis tells waiting for the beginning of epochs from waiting for workers") {
  auto starts = [](RunProfile& p, TrainingFacts& f) {
    p.waiting = time_statistics(std::vector<double>(20, 0.002));
    f.is_data_loader = true, f.num_workers = 2, f.epoch_starts = 0.0015;
  };
  const Advice stay = caused_by(starts);  // the rest, 5 % of the step, is too little
  CHECK(stay.name == "persistent_workers");
  CHECK(*stay.expected_gain == doctest::Approx(0.15));
  CHECK(stay.value == 2);
  CHECK(caused_by([&](RunProfile& p, TrainingFacts& f) {
          starts(p, f), f.persistent_workers = true;
        }).name == "data");
  CHECK(caused_by([&](RunProfile& p, TrainingFacts& f) { starts(p, f), f.num_workers = 0; }).name ==
        "data");
  Measured both = healthy();
  starts(both.profile, both.facts);
  both.profile.waiting = time_statistics(std::vector<double>(20, 0.008));
  const std::vector<Advice> found = advice(both);
  REQUIRE(found.size() == 2);
  CHECK((found[0].name == "data" && found[1].name == "persistent_workers"));
  both.facts.epoch_starts = 0.0004;  // too little to be advice
  CHECK(advice(both).size() == 1);
}

TEST_CASE("the diagnosis names threads, and what they wait for") {
  CHECK(caused_by([](RunProfile& p, TrainingFacts& f) {
          p.conditions.threads = 1, f.all_cores_speedup = 3;
        }).value == 4);
  Measured ranks = healthy();
  ranks.profile.conditions.threads = 1, ranks.facts.all_cores_speedup = 3, ranks.facts.ranks = 4;
  CHECK(advice(ranks).empty());  // each rank has its part of the cores
  auto without = [](RunProfile&, TrainingFacts& f) { f.share_without_processor = 0.4; };
  CHECK(caused_by(without).name == "waiting_policy");
  Measured passive = healthy();
  without(passive.profile, passive.facts);
  passive.profile.conditions.environment = {{"OMP_WAIT_POLICY", "passive"}};
  CHECK(advice(passive).empty());
}

TEST_CASE("the diagnosis names what is in the operators") {
  const Advice denormals = caused_by([](RunProfile&, TrainingFacts& f) {
    f.traits.numbers = 1000, f.traits.denormals = 500;
    f.traits.denormal_operations = 1e6, f.denormal_seconds = 8e-9;
  });
  CHECK(denormals.name == "denormals");
  CHECK(*denormals.expected_gain == doctest::Approx(0.2));  // 8 ms by four threads, of 10 ms
  CHECK(caused_by([](RunProfile&, TrainingFacts& f) {
          f.unaligned =
              TrainingFacts::Unaligned{.shape = {.m = 64, .k = 127, .n = 100, .calls = 10},
                                       .padded_k = 128,
                                       .padded_n = 104,
                                       .seconds = 4e-4,
                                       .padded_seconds = 2e-4};
        }).expected_gain.value() == doctest::Approx(0.2));
  CHECK(caused_by([](RunProfile& p, TrainingFacts&) {
          p.operators[2].self_cpu_time_total = 8000;
        }).name == "copies");
  const Advice small = caused_by([](RunProfile& p, TrainingFacts& f) {
    for (RooflinePoint& o : p.roofline.operators) o.calls = 2000, o.bytes /= 100, o.flops /= 100;
    f.traits.operators = 6000;
  });
  CHECK(small.name == "small_operators");
  CHECK(*small.expected_gain == doctest::Approx(0.6));
  auto on_device = [](RunProfile& p, TrainingFacts& f) {
    p.conditions.device = "cuda:0", f.traits.host_reads = 1;
    for (ProfileRow& row : p.operators) row.self_device_time_total = row.self_cpu_time_total;
  };
  CHECK(caused_by(on_device).name == "host_reads");
  const Advice idle = caused_by([&](RunProfile& p, TrainingFacts& f) {
    on_device(p, f), f.traits.host_reads = 0;
    for (ProfileRow& row : p.operators) row.self_device_time_total /= 4;
  });
  CHECK(idle.finding.find("the device waits for the host 75") == 0);
  CHECK(*idle.expected_gain == doctest::Approx(0.75));
}

TEST_CASE("the diagnosis names precision, ranks, and how the program was compiled") {
  CHECK(caused_by([](RunProfile&, TrainingFacts& f) { f.bfloat16_speedup = 4; }).change ==
        "Precision<BF16>{} in the recipe");
  Measured mixed = healthy();
  mixed.facts.bfloat16_speedup = 4, mixed.facts.has_precision = true;
  CHECK(advice(mixed).empty());
  CHECK(caused_by([](RunProfile& p, TrainingFacts& f) {
          f.has_bfloat16 = false, p.roofline.operators[0].dtype = at::kBFloat16;
        }).change.find("leave Precision<BF16> out") == 0);
  CHECK(caused_by([](RunProfile& p, TrainingFacts& f) {
          f.ranks = 2;
          p.phases.phases = {{.name = "forward", .share = 0.6, .seconds = {}},
                             {.name = "reduce", .share = 0.4, .seconds = {}}};
        }).expected_gain.value() == doctest::Approx(0.3));
  CHECK(caused_by([](RunProfile& p, TrainingFacts&) { p.conditions.is_optimized = false; }).name ==
        "debug_build");
  CHECK(caused_by([](RunProfile& p, TrainingFacts&) {
          p.conditions.vector_code = "DEFAULT";
          p.conditions.environment = {{"ATEN_CPU_CAPABILITY", "default"}};
        }).evidence.find("ATEN_CPU_CAPABILITY=default") != std::string::npos);
}

TEST_CASE("usable cores: within the control groups of the process, of both versions") {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() /
      ("ikebana_cores_" + std::to_string(ikebana::detail::process_id()));
  auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  auto cores = [&] { return ikebana::detail::usable_cores(root.string()); };
  const std::int64_t all = cores();
  CHECK(all >= 1);
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  CHECK(cores() == all);
  write("sys/fs/cgroup/outer/cpu.max", "50000 100000\n");  // half a processor
  CHECK(cores() == 1);
  write("proc/self/cgroup", "7:cpu,cpuacct:/job\n4:memory:/\n");
  CHECK(cores() == all);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  CHECK(cores() == all);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  CHECK(cores() == 1);
  std::filesystem::remove_all(root);
}

TEST_CASE("conditions are those of this process") {
  const Conditions c = conditions();
  CHECK(c.cores >= 1);
  CHECK(c.threads == at::get_num_threads());
  CHECK(c.vector_code == at::get_cpu_capability());
  CHECK(c.libtorch == TORCH_VERSION);
  CHECK(c.is_optimized == ikebana::detail::flags_of_this_file.is_optimized);
  CHECK_FALSE(c.flushes_denormals);
  CHECK(c.json().find("\"cores\": " + std::to_string(c.cores)) != std::string::npos);
  CHECK(c.table().find(c.vector_code) != std::string::npos);
}
