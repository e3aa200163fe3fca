// Measures Offload on a CPU: the time of a step and the resident memory of a GPT of 38 million
// parameters, with what is offloaded in memory of the host and in files. Each contestant is a
// process of its own, run in turn; one thread. With `dropped`, the pages of files leave the
// system's cache before each step. Returns 1 if a loss differs, if files keep half of what
// can leave in memory, or if a step takes over 1.25 times as long.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <map>

#include "conditions.hpp"
#include "models/gpt.hpp"

namespace {

using namespace ikebana;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 3, warm_up = 2, steps = 5;
constexpr double time_bar = 1.25, memory_bar = 0.5;
const GPTConfig config{.layers = 12, .width = 512, .heads = 8, .context = 64};

/// The measurements of one process.
struct Figures {
  double milliseconds = 0, peak = 0, loss = 0;  // the peak in MiB, resident
};

/// Returns a number of this process's memory, in MiB.
double status(const std::string& name) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(name + ":", 0) == 0) return std::atof(line.c_str() + name.size() + 1) / 1024;
  return 0;
}
void restart_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

template <class... Policies>
Figures measured(bool drops, Policies... policies) {
  torch::manual_seed(1);
  Trainer trainer{GPT(config), AdamW{}, ClipGradNorm{}, policies...};
  torch::manual_seed(2);
  const Tokens batch = random_batch(config, 4, config.context);
  Figures figures;
  std::vector<double> times;
  for (int i = 0; i < warm_up + steps; ++i) {
    if (i == warm_up) restart_peak();
    if (drops) std::system("sync; echo 1 > /proc/sys/vm/drop_caches");
    const auto begin = Clock::now();
    const Report report = trainer.step(batch);
    const std::chrono::duration<double, std::milli> time = Clock::now() - begin;
    if (i >= warm_up) times.push_back(time.count());
    figures.loss = report.loss();
  }
  figures.milliseconds = bench::median(times);
  figures.peak = status("VmHWM");
  return figures;
}

/// Measures a recipe by its name, which the other process is given.
Figures contestant(const std::string& name, bool drops) {
  const auto folder = std::filesystem::current_path();
  if (name == "none") return measured(drops);
  if (name == "CPU") return measured(drops, Offload<CPU>{});
  if (name == "CPU, OptimizerState") return measured(drops, Offload<CPU, OptimizerState>{});
  if (name == "CPU, Activations") return measured(drops, Offload<CPU, Activations>{});
  if (name == "Disk") return measured(drops, Offload<Disk>{.folder = folder});
  if (name == "Disk, OptimizerState")
    return measured(drops, Offload<Disk, OptimizerState>{.folder = folder});
  return measured(drops, Offload<Disk, Activations>{.folder = folder});
}
const char* const names[] = {"none",
                             "CPU",
                             "CPU, OptimizerState",
                             "CPU, Activations",
                             "Disk",
                             "Disk, OptimizerState",
                             "Disk, Activations"};

Figures in_process(const std::string& program, const std::string& name, bool drops) {
  const std::string command = "'" + program + "' run '" + name + "'" + (drops ? " dropped" : "");
  std::FILE* output = popen(command.c_str(), "r");
  Figures figures;
  const bool is_read =
      output != nullptr &&
      std::fscanf(output, "%lf %lf %la", &figures.milliseconds, &figures.peak, &figures.loss) == 3;
  if (output == nullptr || pclose(output) != 0 || !is_read) {
    std::fprintf(stderr, "the process of `%s` failed\n", name.c_str());
    std::exit(1);
  }
  return figures;
}

/// Returns the MiB that can leave memory: gradients and AdamW's state, and parameters if they
/// visit.
double can_leave(const std::string& name) {
  double elements = 0;
  for (const auto& p : GPT(config)->parameters()) elements += static_cast<double>(p.numel());
  return elements * (name == "Disk" ? 16 : 12) / (1 << 20);
}

int table(const std::string& program, bool drops) {
  bench::print_conditions("", rounds);
  std::map<std::string, std::vector<Figures>> all;
  for (int round = 0; round < rounds; ++round)
    for (const char* name : names) all[name].push_back(in_process(program, name, drops));
  auto median_of = [&](const char* name, double Figures::* member) {
    std::vector<double> values;
    for (const Figures& one : all[name]) values.push_back(one.*member);
    return bench::median(values);
  };
  bool is_met = true;
  std::printf("%-24s %9s %7s %11s %s\n", "Offload", "step, ms", "ratio", "peak, MiB", "left");
  for (const std::string name : names) {
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round)
      ratios.push_back(all[name][round].milliseconds / all["none"][round].milliseconds);
    const double ratio = bench::median(ratios), peak = median_of(name.c_str(), &Figures::peak);
    const double left = (median_of("none", &Figures::peak) - peak) / can_leave(name);
    const bool is_file = name == "Disk" || name == "Disk, OptimizerState";
    std::printf("%-24s %9.0f %7.3f %11.0f", name.c_str(),
                median_of(name.c_str(), &Figures::milliseconds), ratio, peak);
    std::printf(is_file ? " %3.0f %%\n" : "\n", 100 * left);
    is_met = is_met && all[name][0].loss == all["none"][0].loss;
    if (is_file) is_met = is_met && left >= memory_bar && (drops || ratio <= time_bar);
  }
  std::printf("losses equal, bars met: %s\n", is_met ? "yes" : "NO");
  return is_met ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  at::set_num_threads(1);
  const bool drops = std::string(words[count - 1]) == "dropped";
  if (count < 3 || std::string(words[1]) != "run") return table(words[0], drops);
  const Figures figures = contestant(words[2], drops);
  std::printf("%f %f %a\n", figures.milliseconds, figures.peak, figures.loss);
}
