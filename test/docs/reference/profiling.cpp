// Examples of the reference: a training that is profiled in one call.
#include <filesystem>
#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>

#include "policies.hpp"

namespace test::reference::profiling {

TEST_CASE_FIXTURE(Small, "reference: a profiled training") {
  Printed printed;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("ikebana_profiling_" + std::to_string(ikebana::detail::process_id()));
  const std::vector<std::decay_t<decltype(batch)>> loader(3, batch);
  {
    // example: profile_run, ProfileRunOptions, RunProfile, Advice
    Trainer trainer{model,
                    CrossEntropyLoss{},
                    AdamW{},
                    Observe<Phases>{},
                    Observe<EachUnit>{},
                    Observe<Memory>{}};
    RunProfile profile = profile_run(trainer, loader, folder, {.warmup = 2, .steps = 5});
    std::cout << profile;
    for (const Advice& advice : profile.advice)
      std::cout << advice.name << ": " << advice.change << '\n';
    for (const auto& file : profile.files) std::cout << "wrote " << file << '\n';
    // end
  }
  CHECK(contains(printed.text(), "waits for data"));
  CHECK(contains(printed.text(), "report.html"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("reference: the conditions of a measurement") {
  Printed printed;
  // example: conditions, Conditions
  Conditions now = conditions();
  std::cout << now.table() << now.json() << '\n';
  if (now.threads > now.cores) std::cout << "threads wait for each other\n";
  // end
  CHECK(contains(printed.text(), "processor"));
}

TEST_CASE("reference: another loader of a dataset") {
  // example: DataLoader::with_options
  DataLoader loader{TensorDataset(at::arange(8)), {.batch_size = 4}};
  DataLoaderOptions options = loader.options();
  options.num_workers = 2;
  auto faster = loader.with_options(options);
  // end
  CHECK(faster.size() == 2);
}

}  // namespace test::reference::profiling
