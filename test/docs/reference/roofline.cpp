// Examples of the reference: the bounds of a machine, and the report of a profiled training.
#include <filesystem>
#include <ikebana/observe/each_unit.hpp>
#include <ikebana/observe/profile.hpp>
#include <ikebana/profiling/form_pairs.hpp>
#include <ikebana/profiling/report_files.hpp>

#include "policies.hpp"

namespace test::reference::roofline {

using ikebana::roofline;

TEST_CASE_FIXTURE(Small, "reference: a roofline of a training") {
  Printed printed;
  // example: roofline, Roofline, RooflinePoint, RooflineLimit
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Observe<EachUnit>{.warmup = 1},
                  Observe<Profile>{.wait = 0, .warmup = 1, .active = 2, .repeat = 1}};
  for (int step = 0; step < 3; ++step) trainer.step(batch);
  OperatorTotals totals = count_operators([&] { trainer.step(batch); });
  const ProfileResult& profile = trainer.mechanism<Observe<Profile>>().result();
  Roofline found = roofline(machine_bounds(), trainer.mechanism<Observe<EachUnit>>().summary(),
                            totals, profile.key_averages(), profile.steps);
  std::cout << found;
  for (const RooflinePoint& one : found.operators)
    if (one.limit(found.bounds) == RooflineLimit::Overhead)
      std::cout << one.name << ": " << one.calls << " calls are too small\n";
  // end
  CHECK(contains(printed.text(), "aten::addmm"));
  CHECK(contains(found.svg(), "</svg>"));
}

TEST_CASE_FIXTURE(Small, "reference: what operators compute and move, and how fast they may") {
  Printed printed;
  // example: count_operators, OperatorTotals, OperatorTotal
  OperatorTotals totals = count_operators([&] { model->forward(batch.input).sum().backward(); });
  for (const auto& [name, one] : totals.by_name)
    std::cout << name << ": " << one.calls << " calls, " << one.flops << " FLOP, " << one.bytes
              << " bytes\n";
  std::cout << totals.all().bytes << " bytes in all\n";
  // end
  CHECK(contains(printed.text(), "bytes in all"));
  Printed more;
  // example: machine_bounds, MachineBounds, MachineBounds::Matmul, copy_bound
  MachineBounds bounds = machine_bounds();
  for (const MachineBounds::Matmul& one : bounds.matmul)
    std::cout << one.dtype << ": " << one.flops_per_second << " FLOP/s\n";
  bool is_same = bounds.bytes_per_second == copy_bound();
  // end
  CHECK(is_same);
}

TEST_CASE("reference: pairs of forms") {
  Printed printed;
  // example: measure_forms, FormPairs, FormPair
  FormPairs forms = measure_forms();
  for (const FormPair& pair : forms.pairs)
    if (pair.gain() > 1.2) std::cout << pair.lesson << ": " << pair.gain() << " times as fast\n";
  std::cout << forms;
  // end
  CHECK(contains(printed.text(), "one fused operator"));
}

TEST_CASE("reference: a report") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("ikebana_roofline_" + std::to_string(ikebana::detail::process_id()));
  // example: write_report
  RunProfile profile;
  profile.step_seconds = {0.021, 0.020, 0.020};
  profile.step = time_statistics(profile.step_seconds);
  std::vector<std::filesystem::path> files = write_report(profile, folder);  // report.html first
  // end
  CHECK(files.front() == folder / "report.html");
  std::filesystem::remove_all(folder);
}

}  // namespace test::reference::roofline
