// Examples of the reference: where the time of a training goes.
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/observe.hpp>

#include "policies.hpp"

namespace test::reference::observe {

TEST_CASE_FIXTURE(Small, "reference: phases, throughput and units") {
  Printed printed;
  // example: Observe<Phases>, PhaseSeconds, PhaseSummary, PhaseTimes
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Observe<Phases>{.warmup = 1}};
  for (int i = 0; i < 3; ++i) {
    Report report = trainer.step(batch);
    std::cout << report.phases->forward << " s in forward\n";
  }
  PhaseSummary summary = trainer.mechanism<Observe<Phases>>().summary();
  std::cout << summary << summary.share("backward") << " of the time in backward\n";
  // end
  CHECK(contains(printed.text(), "time of 2 steps in ms, without the first 1"));
}

TEST_CASE_FIXTURE(Small, "reference: throughput") {
  // example: Observe<Throughput>, StepThroughput
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Observe<Throughput>{}};
  StepThroughput found = *trainer.step(batch).throughput;
  double rate = found.items_per_second(), share = found.share_of_bound();
  // end
  CHECK((rate > 0 && share > 0));
}

TEST_CASE_FIXTURE(Small, "reference: times of units") {
  Printed printed;
  // example: Observe<EachUnit>, UnitSummary, UnitTimes
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Observe<EachUnit>{.warmup = 1}};
  for (int i = 0; i < 3; ++i) trainer.step(batch);
  UnitSummary summary = trainer.mechanism<Observe<EachUnit>>().summary();
  std::cout << summary.tree() << summary.flame_graph();
  for (const UnitTimes& unit : summary.units)
    std::cout << unit.name << ": " << unit.seconds() << " s, " << unit.flops << " FLOP\n";
  // end
  CHECK(contains(printed.text(), "units over 2 steps"));
}

TEST_CASE_FIXTURE(Small, "reference: the first value that is not finite") {
  std::string message;
  // example: Observe<FirstNonFinite>
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, GradNorm{}, Observe<FirstNonFinite>{}};
  batch.input[1][0] = NAN;
  try {
    trainer.step(batch);
  } catch (const NonFinite& error) {
    message = error.what();  // which unit, operator and rows made the first one
  }
  // end
  CHECK(contains(message, "in rows 1 of the batch: mend the data"));
}

TEST_CASE_FIXTURE(Small, "reference: times and operations of any call") {
  Printed printed;
  // example: measure_latency, LatencyOptions, TimeStatistics, time_statistics
  const at::Tensor x = at::randn({64, 64});
  TimeStatistics found = measure_latency([&] { x.mm(x); }, {.warmup = 2, .iterations = 20});
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}};
  TimeStatistics of_predict = measure_latency(trainer, batch, {.iterations = 5});
  std::cout << found << '\n' << of_predict.p95 << " s\n";
  std::vector<double> seconds{0.1, 0.2};
  double mean = time_statistics(seconds).mean;
  // end
  CHECK((found.count == 20 && of_predict.count == 5 && mean > 0.1));
  // example: count_flops, FlopCount, matmul_bound
  FlopCount counted = count_flops([&] { x.mm(x); });
  double share = static_cast<double>(counted.total) / found.median / matmul_bound();
  std::cout << counted.by_operator.at("aten::mm") << " FLOP, " << share << " of the bound\n";
  // end
  CHECK(counted.total == 2 * 64 * 64 * 64);
}

}  // namespace test::reference::observe
