// Tests rooflines, operators' totals, the bounds of the machine, pairs of forms, and the report of
// a profile: numbers by hand, and that no name can spoil a page.
#include <filesystem>
#include <fstream>
#include <ikebana/detail/csv.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/profiling/form_pairs.hpp>
#include <ikebana/profiling/report_files.hpp>
#include <ikebana/profiling/report_parts.hpp>
#include <set>
#include <sstream>

#include "profiling/xml.hpp"

namespace test::report {

using namespace ikebana;
using namespace test::xml;

TEST_CASE("count_operators: calls, operations and bytes by hand, and as count_flops") {
  const at::Tensor a = at::ones({8, 16}), b = at::ones({16, 4});
  const OperatorTotals totals = count_operators([&] { a.mm(b).t().add_(1); });
  const OperatorTotal mm = totals.by_name.at("aten::mm");
  CHECK((mm.calls == 1 && mm.flops == 2 * 8 * 16 * 4 && mm.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)));
  CHECK(totals.by_name.at("aten::t").bytes == 0);
  CHECK(totals.by_name.at("aten::add_").bytes == 4 * 8 * 4);
  CHECK(totals.all().calls == 3);
  CHECK(totals.all().flops == mm.flops);

  torch::nn::Sequential net(torch::nn::Linear(16, 32), torch::nn::ReLU(), torch::nn::Linear(32, 4));
  auto step = [&] { net->forward(a).square().mean().backward(); };
  const FlopCount flops = count_flops(step);
  const OperatorTotals counted = count_operators(step);
  CHECK(counted.all().flops == flops.total);
  for (const auto& [name, count] : flops.by_operator)
    CHECK(counted.by_name.at(name).flops == count);
}

TEST_CASE("count_operators: the dtype is that of most products") {
  const at::Tensor large = at::ones({32, 32}, at::kBFloat16), small = at::ones({4, 4});
  const OperatorTotals totals = count_operators([&] { small.mm(small), large.mm(large); });
  CHECK((totals.by_name.at("aten::mm").dtype == at::kBFloat16));
  CHECK((totals.all().dtype == at::kBFloat16));
  CHECK((count_operators([] {}).all().dtype == at::kFloat));
  CHECK_THROWS_AS(count_operators([] { throw BadValue("inner"); }), BadValue);
}

TEST_CASE("machine_bounds: are measured once, and scopes do not see it") {
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);  // a number of threads that was not measured
  const OperatorTotals seen = count_operators([] { copy_bound(); });
  CHECK(seen.by_name.empty());
  CHECK(copy_bound() > 1e6);
  CHECK(copy_bound() == copy_bound());
  at::set_num_threads(threads);
  const MachineBounds bounds = machine_bounds();
  CHECK(bounds.device == "cpu");
  CHECK(bounds.bytes_per_second == copy_bound());
  CHECK(bounds.flops_per_second(at::kFloat) == matmul_bound());
  CHECK(bounds.flops_per_second(at::kBFloat16) >= matmul_bound());
  CHECK(bounds.flops_per_second(at::kDouble) == matmul_bound());
  CHECK(MachineBounds{}.flops_per_second(at::kFloat) == 0);
}

const MachineBounds round_bounds{"cpu", {{at::kFloat, 1000}, {at::kBFloat16, 4000}}, 10};

TEST_CASE("roofline: a point's numbers by hand") {
  const RooflinePoint memory{"m", 1, 2000, 50, 10, at::kFloat};
  CHECK(memory.intensity() == 40);
  CHECK(memory.flops_per_second() == 200);
  CHECK(memory.bytes_per_second() == 5);
  CHECK(memory.attainable(round_bounds) == 400);
  CHECK(memory.least_seconds(round_bounds) == 5);
  CHECK(memory.share(round_bounds) == 0.5);
  CHECK(memory.is_memory_bound(round_bounds));
  CHECK(memory.limit(round_bounds) == RooflineLimit::Copies);

  const RooflinePoint products{"p", 1, 20000, 50, 40, at::kFloat};
  CHECK(products.attainable(round_bounds) == 1000);
  CHECK(products.share(round_bounds) == 0.5);
  CHECK(products.limit(round_bounds) == RooflineLimit::Products);
  RooflinePoint low = products;
  low.dtype = at::kBFloat16;
  CHECK(low.attainable(round_bounds) == 4000);
  CHECK(low.share(round_bounds) == 0.125);

  const RooflinePoint elementwise{"e", 1, 0, 50, 10};
  CHECK((elementwise.intensity() == 0 && elementwise.share(round_bounds) == 0.5));
  const RooflinePoint cached{"c", 1, 0, 50, 2};
  CHECK(cached.limit(round_bounds) == RooflineLimit::Caches);
  const MachineBounds real{"cpu", {{at::kFloat, 1e11}}, 1e10};
  const RooflinePoint tiny{"t", 1000, 0, 1000 * 19'000, 1000 * 5e-6};  // 1.9 us a call at best
  CHECK(tiny.limit(real) == RooflineLimit::Overhead);
  CHECK(RooflinePoint{"t", 1000, 0, 1000 * 19'000, 1000 * 3e-6}.limit(real) ==
        RooflineLimit::Copies);
  CHECK(RooflinePoint{"t", 1000, 0, 1000 * 21'000, 1000 * 5e-6}.limit(real) ==
        RooflineLimit::Copies);
  CHECK(RooflinePoint{"n", 1, 0, 0, 1}.limit(round_bounds) == RooflineLimit::Unknown);
  CHECK(memory.limit(MachineBounds{}) == RooflineLimit::Unknown);
}

ProfileRow row(const std::string& key, std::int64_t count, double self, double total) {
  ProfileRow one;
  one.key = key, one.count = count;
  one.self_cpu_time_total = self * 1e6, one.cpu_time_total = total * 1e6;
  return one;
}

TEST_CASE("roofline: operators have the times of the calls that were counted") {
  OperatorTotals totals;
  totals.by_name = {{"aten::convolution", {2, 100, 10}},
                    {"aten::copy_", {3, 0, 60}},
                    {"aten::mm", {4, 800, 40}},
                    {"aten::t", {5, 0, 0}},
                    {"aten::gone", {1, 0, 8}}};
  KeyAverages averages;
  averages.push_back(row("ProfilerStep*", 2, 1, 100));
  averages.back().is_user_annotation = true;
  averages.push_back(row("aten::convolution", 4, 1, 8));  // its kernel is another operator
  averages.push_back(row("aten::mkldnn_convolution", 4, 7, 7));
  averages.push_back(row("aten::copy_", 6, 3, 3));  // half of the calls, as by shape or unit
  averages.push_back(row("aten::copy_", 6, 9, 9));  // the others are within other operators
  averages.push_back(row("aten::mm", 16, 6, 11));   // autocast calls it again
  averages.push_back(row("aten::t", 10, 1, 1));
  averages.push_back(row("aten::linear", 4, 1, 20));
  averages.push_back(row("aten::mm", 1, 500, 500));  // a range of this name
  averages.back().is_user_annotation = true;
  const Roofline found = roofline(round_bounds, {}, totals, averages, 2);
  std::map<std::string, double> seconds;
  for (const RooflinePoint& p : found.operators) seconds[p.name] = p.seconds;
  CHECK(seconds == std::map<std::string, double>{
                       {"aten::convolution", 4}, {"aten::copy_", 3}, {"aten::mm", 3}});
  CHECK_THROWS_WITH_AS(roofline(round_bounds, {}, totals, averages, 0),
                       doctest::Contains("steps is 0"), BadValue);
  CHECK_THROWS_WITH_AS(roofline(round_bounds, {}, totals, averages, 3),
                       doctest::Contains("the profile has 2 steps"), BadValue);
  CHECK(roofline(round_bounds, {}, totals, {}, 0).operators.empty());
}

TEST_CASE("roofline: on an accelerator times are those of kernels") {
  OperatorTotals totals;
  totals.by_name = {{"aten::mm", {1, 800, 40}}};
  KeyAverages averages;
  averages.push_back(row("aten::mm", 1, 5, 5));
  averages[0].device_time_total = averages[0].self_device_time_total = 2e6;
  MachineBounds bounds = round_bounds;
  bounds.device = "cuda:0";
  CHECK(roofline(bounds, {}, totals, averages, 1).operators[0].seconds == 2);
  CHECK_THROWS_WITH_AS(roofline(round_bounds, {}, totals, averages, 1),
                       doctest::Contains("bounds are those of a CPU"), BadValue);
  averages[0].device_time_total = averages[0].self_device_time_total = 0;
  CHECK(roofline(bounds, {}, totals, averages, 1).operators.empty());
}

TEST_CASE("roofline: texts say why a point is above a bound") {
  Roofline some{round_bounds, {{"u", 1, 2000, 50, 10}}, {{"aten::cached", 1, 0, 50, 2}}};
  const std::string table = some.table();
  CHECK(contains(table, "above the copy bound: its tensors fit into caches"));
  CHECK(contains(table, "> 100 %"));
  CHECK(contains(table, "copies 10 B/s"));
  CHECK(contains(some.csv(), "unit,u,1,2000,50,10,float32,40,200,5,400,0.5,copies\n"));
  CHECK(contains(some.csv(), "operator,aten::cached,1,0,50,2,float32,0,0,25,"));
  CHECK(!contains(some.table(0), "aten::cached"));
  std::ostringstream out;
  out << some;
  CHECK(out.str() == table);
}

/// A profile with everything, and with names that spoil a text which does not escape them.
RunProfile full_profile() {
  RunProfile p;
  p.recipe = "Trainer<" + nasty + ">";
  p.step_seconds = {0.1, 0.1, 0.1, 0.2};
  p.step = time_statistics(p.step_seconds);
  p.waiting = time_statistics(std::vector<double>{0.025, 0.025, 0.025, 0.025});
  p.items_per_second = 512;
  PhaseTimes phase;
  phase.name = "forward", phase.share = 1, phase.seconds = p.step;
  p.phases = {{phase}, p.step, 0};
  p.units = {4, {{.name = "", .forward = 0.01}, {.name = nasty, .forward = 0.02, .share = 0.7}}};
  p.profile.steps = 4;
  p.operators.push_back(row("ProfilerStep*", 4, 0.05, 0.4));
  p.operators.back().is_user_annotation = true;
  p.operators.push_back(row("aten::mm", 8, 0.2, 0.2));
  p.operators.push_back(row("aten::copy_", 8, 0.04, 0.04));
  p.operators.push_back(row("my::" + nasty, 8, 0.02, 0.02));
  p.operators.push_back(row("my::" + longest, 8, 0.01, 0.01));
  p.operators.push_back(row("MmBackward0", 8, 0.03, 0.2));
  p.operators.push_back(row("autograd::engine::evaluate_function: MmBackward0", 8, 0.01, 0.2));
  p.operators.push_back(row("torch::autograd::AccumulateGrad", 8, 0.01, 0.01));
  ProfileEvent event;
  event.name = "aten::mm", event.unit = nasty, event.self_cpu_time_total = 3000;
  p.profile.events = {event, event};
  event.name = "aten::relu", event.unit = "", event.self_cpu_time_total = 2000;
  p.profile.events.push_back(event);
  p.memory.peak = MiB(100), p.memory.phase_peaks = {0, MiB(90), MiB(100), 0};
  p.memory.units = {{"", 0, 0, 0}, {nasty, MiB(3), MiB(90), 0}};
  p.roofline = {round_bounds, {{nasty, 1, 2000, 50, 10}}, {{"aten::mm", 2, 2000, 50, 0.05}}};
  p.bound_by = "matrix products";
  p.advice = {{"threads", "uses 1 of 2 cores " + nasty, "`set` is 1 <`>",
               "at::set_num_threads(2);\n" + nasty, 0.3, -0.1}};
  return p;
}

TEST_CASE("report: the summary answers first what a reader asks first") {
  const std::string text = full_profile().summary();
  CHECK(contains(text, "median of 4 steps, p95 185.0 ms; 512 items/s"));
  CHECK(contains(text, "waits for data  20.0 %"));
  CHECK(contains(text, "device is busy  67.5 %"));
  CHECK(contains(text, "copies          10.0 %"));
  CHECK(contains(text, "aten::mm 50.0 %, aten::copy_ 10.0 %, my::"));
  CHECK(contains(text, "expected to save 30.0 %; took 10.0 % more when it was tried"));
  const std::string empty = RunProfile{}.summary();
  CHECK(contains(empty, "not measured"));
  CHECK(!std::regex_search(empty, std::regex(R"(\d)")));  // what is not known is no number
  std::ostringstream out;
  out << full_profile();
  CHECK(out.str() == text);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("ikebana_report_" + std::to_string(ikebana::detail::process_id()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& one : std::filesystem::directory_iterator(path))
      found.insert(one.path().filename());
    return found;
  }
};

TEST_CASE("report: all files are written, and the page needs no other file") {
  const Folder folder;
  const auto paths = write_report(full_profile(), folder.path / "inner");
  CHECK(paths.size() == 17);
  CHECK(paths[0].filename() == "report.html");
  for (const auto& path : paths) {
    CHECK(std::filesystem::file_size(path) > 0);
    if (path.extension() == ".svg") check_picture(read(path));
  }
  std::string page = read(paths[0]);
  CHECK(fault_in_xml(page) == "");
  CHECK(contains(page, "<p><code>set</code> is 1 &lt;`&gt;</p>"));
  CHECK(!contains(page, "<script"));
  CHECK(!contains(page, "href=\"http"));
  CHECK(!contains(page, "src="));
  CHECK(!contains(page, "url("));
  std::size_t last = 0;  // the order in which the page answers
  for (const char* part :
       {"waits for data", "device is busy", "copies", "most time", "Advice", "Steps", "Phases",
        "Units", "Operators", "Memory", "Roofline", "Conditions"}) {
    const std::size_t at = page.find(std::string(">") + part + "<", last);
    CHECK_MESSAGE(at != std::string::npos, part);
    last = at;
  }
  CHECK(contains(read(folder.path / "inner/steps.csv"), "step,seconds\n1,0.1\n2,0.1\n"));
  CHECK(contains(read(folder.path / "inner/memory.csv"), "phase_peak,forward,94371840\n"));
  CHECK(contains(read(folder.path / "inner/operators_by_unit.csv"), "aten::relu"));
  const std::string text = read(folder.path / "inner/report.md");
  CHECK(contains(text, "| aten::mm | 75.0 % | 1.500 | 0.5"));  // two in four steps, 3 ms each
  CHECK(contains(text, "| (no unit's) | aten::relu | 25.0 % |"));
}

TEST_CASE("report: of a model without units there is no table of operators by unit") {
  const Folder folder;
  RunProfile profile = full_profile();
  for (ProfileEvent& event : profile.profile.events) event.unit = "(model)";
  write_report(profile, folder.path);
  CHECK(folder.names().count("operators_by_unit.csv") == 0);
  CHECK(!contains(read(folder.path / "report.md"), "operators_by_unit.csv"));
}

TEST_CASE("report: every row of a table in Markdown has its cells") {
  const RunProfile profile = full_profile();
  std::istringstream lines(
      ikebana::detail::report_markdown(profile, ikebana::detail::report_parts(profile)));
  std::string line;
  std::size_t rows = 0, cells = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("|")) {
      cells = 0;
      continue;
    }
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i)
      if (line[i] == '\\') ++i;
      else if (line[i] == '|') ++bars;
    if (cells == 0) cells = bars;
    CHECK_MESSAGE(bars == cells, line);
    ++rows;
  }
  CHECK(rows > 20);
}

TEST_CASE("report: what was not measured is said, and leaves no file of another profile") {
  const Folder folder;
  write_report(full_profile(), folder.path);
  const auto paths = write_report(RunProfile{}, folder.path);
  CHECK(folder.names() == std::set<std::string>{"report.html", "report.md", "conditions.json"});
  CHECK(paths.size() == 3);
  const std::string page = read(paths[0]);
  CHECK(fault_in_xml(page) == "");
  for (const char* text :
       {"The times of steps were not measured.", "phases of steps were not measured",
        "Units were not measured", "Operators were not recorded",
        "memory of a step was not measured", "No rule found anything"})
    CHECK_MESSAGE(contains(page, text), text);
  CHECK(!contains(page, "0.0 %"));
}

TEST_CASE("report: a folder that cannot be written to is named") {
  const Folder folder;
  std::filesystem::create_directories(folder.path);
  std::ofstream(folder.path / "file") << "text";
  CHECK_THROWS_WITH_AS(write_report({}, folder.path / "file"),
                       doctest::Contains((folder.path / "file").string().c_str()), FileFailed);
  CHECK(read(folder.path / "file") == "text");
  CHECK_THROWS_AS(write_report({}, ""), BadValue);
}

TEST_CASE("measure_forms: both forms of each pair are timed, and compute the same") {
  const FormPairs found = measure_forms();
  CHECK(found.pairs.size() >= 5);
  for (const FormPair& pair : found.pairs) {
    CHECK_MESSAGE((pair.baseline_seconds > 0 && pair.better_seconds > 0), pair.name);
    CHECK(pair.gain() == pair.baseline_seconds / pair.better_seconds);
    CHECK(contains(found.table(), pair.lesson));
    CHECK(contains(found.csv(), ikebana::detail::csv_field(pair.name)));
  }
  CHECK(FormPair{}.gain() == 0);
#ifndef IKEBANA_COMPILED
  CHECK_THROWS_WITH_AS(ikebana::detail::check_same({.name = "some"}, at::ones({2}), at::zeros({2})),
                       doctest::Contains("forms of `some` differ by 1"), Error);
#endif
}

}  // namespace test::report
