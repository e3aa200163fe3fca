// Examples of the reference: profiles of a training and of a loop by hand.
#include <filesystem>
#include <ikebana/observe/profile.hpp>

#include "policies.hpp"

namespace test::reference::profile {

TEST_CASE_FIXTURE(Small, "reference: a profile of a training") {
  Printed printed;
  // example: Observe<Profile>, ProfileResult, ProfileResult::key_averages, KeyAveragesOptions
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{},
                  Observe<Profile>{.wait = 1, .warmup = 1, .active = 2, .repeat = 1}};
  for (int step = 0; step < 4; ++step) trainer.step(batch);
  const ProfileResult& result = trainer.mechanism<Observe<Profile>>().result();
  std::cout << result.key_averages({.by_unit = true})
                   .table({.sort_by = &ProfileRow::self_cpu_time_total, .rows = 20});
  // end
  CHECK(contains(printed.text(), "ProfilerStep*"));
  CHECK(contains(printed.text(), "aten::addmm"));
}

TEST_CASE_FIXTURE(Small, "reference: each window of a profile") {
  Printed printed;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("ikebana_profile_" + std::to_string(ikebana::detail::process_id()));
  {
    // example: Observe<Profile>, ProfileResult::files
    auto print = [](const ProfileResult& result) {
      for (const std::string& file : result.files) std::cout << "wrote " << file << '\n';
    };
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{},
                    Observe<Profile>{.active = 1,
                                     .record_shapes = true,
                                     .profile_memory = true,
                                     .folder = folder,
                                     .on_trace_ready = print}};
    for (int step = 0; step < 6; ++step) trainer.step(batch);
    // end
  }
  CHECK(contains(printed.text(), ".pt.trace.json"));
  std::filesystem::remove_all(folder);
}

TEST_CASE_FIXTURE(Small, "reference: a profile of a loop by hand") {
  Printed printed;
  // example: Profiler, Range, ProfileRow, KeyAverages, ProfileTableOptions
  Profiler profiler({.wait = 0, .warmup = 1, .active = 2, .repeat = 1});
  profiler.start();
  for (int step = 0; step < 3; ++step) {
    {
      Range range("forward and loss");
      model->forward(batch.input).square().mean().backward();
    }
    profiler.step();
  }
  profiler.stop();
  KeyAverages rows = profiler.result().key_averages();
  for (const ProfileRow& row : rows)
    if (row.is_user_annotation) std::cout << row.key << ": " << row.count << '\n';
  std::cout << rows.table({.sort_by = &ProfileRow::cpu_time_total, .rows = 5});
  // end
  CHECK(contains(printed.text(), "forward and loss: 2"));
}

TEST_CASE_FIXTURE(Small, "reference: the events of a profile") {
  Printed printed;
  // example: ProfileEvent
  Profiler profiler({.wait = 0, .warmup = 0, .active = 1, .record_shapes = true});
  profiler.start();
  model->forward(batch.input);
  profiler.step();
  for (const ProfileEvent& event : profiler.result().events)
    if (event.name == "aten::addmm")
      std::cout << event.cpu_time_total << " us for " << event.input_shapes.size() << " inputs\n";
  // end
  CHECK(contains(printed.text(), "us for 5 inputs"));
  profiler.stop();
}

}  // namespace test::reference::profile
