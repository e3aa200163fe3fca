// Trains a GPT 4x128 plainly, observed, and with loggers, for observed.py, which counts the
// instructions of each. Usage: observed FOLDER. Prints the names in their order.
#include <ikebana.hpp>
#include <ikebana/loggers.hpp>
#include <ikebana/observe.hpp>
#include <iostream>
#include <models/gpt.hpp>

/// Starts callgrind's counting; the library heap, which is loaded before, defines it.
extern "C" [[gnu::weak]] void start_counting();
/// The function whose instructions callgrind counts: eight steps contain what a step does every
/// second, fourth or eighth time.
extern "C" [[gnu::noinline]] void timed_steps(const std::function<void()>& step) {
  for (int i = 0; i < 8; ++i) step();
}

namespace {

using namespace ikebana;

const GPTConfig config{.layers = 4, .width = 128, .heads = 4, .context = 64};

/// Counts the steps of a recipe, each followed by `log(report)`. A batch of 8 tokens makes the
/// parts that do not grow with the batch as large as they can be.
template <class... Policies>
void count(const std::string& name, const std::function<void(const Report&)>& log,
           Policies... policies) {
  torch::manual_seed(0);
  Trainer trainer{GPT(config), AdamW{}, policies...};
  const Tokens batch = random_batch(config, 1, 8);
  auto step = [&] {
    const Report report = trainer.step(batch);
    if (log) log(report);
  };
  for (int i = 0; i < 3; ++i) step();  // a first step measures, and caches fill
  timed_steps(step);
  std::cout << name << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const std::filesystem::path folder = argv[1];
  if (start_counting != nullptr) start_counting();
  count("plain", {});
  count("plain again", {});
  count("Observe<Phases>", {}, Observe<Phases>{});
  count("Observe<Throughput>", {}, Observe<Throughput>{.bound = 1e12});
  count("Observe<EachUnit>", {}, Observe<EachUnit>{});
  count("CSVLogger", CSVLogger(folder / "steps.csv"));
  count("JSONLinesLogger",
        [log = JSONLinesLogger(folder / "steps.jsonl")](const Report& report) { log.log(report); });
  count("TensorBoardLogger",
        [log = TensorBoardLogger(folder / "board")](const Report& report) { log.log(report); });
  return 0;
}
