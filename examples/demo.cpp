// ctest: --quick
// Trains a small language model on a text in about a minute. Then removes each policy of its recipe
// in turn, to measure what the policy does to memory and time, and records the steps of a tiny one.
#include <ATen/Version.h>

#include <cstdlib>
#include <ikebana/capture.hpp>
#include <iostream>

#include "policies.hpp"

using namespace ikebana;

using Recipe = Trainer<GPT, AdamW, CosineAnnealingLR, Precision<BF16>, Checkpoint<Full>,
                       Accumulate<4>, ClipGradNorm, Observe<Memory>>;

const std::vector<Row> one_policy_less = {
    {"the whole recipe",
     round_of<Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>},
    {"without Precision<BF16>",
     round_of<Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>},
    {"without Checkpoint<Full>",
     round_of<Precision<BF16>, Accumulate<4>, ClipGradNorm, Observe<Memory>>},
    {"without Accumulate<4>",
     round_of<Precision<BF16>, Checkpoint<Full>, ClipGradNorm, Observe<Memory>>},
    {"without ClipGradNorm",
     round_of<Precision<BF16>, Checkpoint<Full>, Accumulate<4>, Observe<Memory>>},
    {"without Observe<Memory>",
     round_of<Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm>},
};

struct Options {
  std::filesystem::path text;
  std::int64_t steps = 800;
  bool quick = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--quick") options.quick = true, options.steps = 12;
    else if (argument == "--steps" && i + 1 < argc) options.steps = std::atoll(argv[++i]);
    else if (!argument.starts_with("--") && options.text.empty()) options.text = argument;
    else throw std::runtime_error("usage: demo [--steps N] [--quick] [file or folder of text]");
  }
  if (options.steps < 1)
    throw std::runtime_error("--steps is " + std::to_string(options.steps) +
                             "; it must be 1 or more.");
  if (options.text.empty()) options.text = libtorch_headers();
  return options;
}

/// Writes 1234567 as 1,234,567.
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number), text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

void introduce(const GPT& model, const Text& text, at::Device device, std::int64_t rows,
               std::int64_t steps) {
  const GPTConfig& c = model->config;
  std::int64_t parameters = 0;
  for (const auto& p : model->parameters()) parameters += p.numel();
  std::cout << "A byte-level GPT learns to write.\n\n"
            << "  text    " << text.name << '\n'
            << "          " << grouped(text.size()) << " bytes; the last tenth is for validation\n"
            << "  model   " << c.layers << " layers, " << c.width << " wide, " << c.heads
            << " heads, " << c.context << " bytes of context: " << grouped(parameters)
            << " parameters\n"
            << "  batch   " << rows << " windows of " << c.context << " bytes; " << steps
            << " steps\n"
            << "  device  " << device;
  if (device.is_cpu())
    std::cout << ", " << at::get_num_threads() << " threads, " << at::get_cpu_capability();
  std::cout << "\n\n";
}

/// Shows a progress bar on a terminal, else prints ten lines.
void learn(Recipe& trainer, Windows windows, std::int64_t steps) {
  bool terminal = isatty(STDERR_FILENO);
  Progress progress(terminal, steps, "tokens");
  double tokens = 0, seconds = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    Report report = trainer.step(windows.next());
    progress.draw(0, report);
    tokens += report.count(), seconds += report.seconds;
    if (terminal || step * 10 / steps == (step - 1) * 10 / steps) continue;
    std::printf("  step %5lld  loss %.4f  %6.0f tokens/s  lr %.1e  norm %.2f  %lld MiB\n",
                static_cast<long long>(step), report.loss(), tokens / seconds, report.learning_rate,
                *report.grad_norm(), static_cast<long long>(*report.peak_bytes >> 20));
    std::fflush(stdout);
  }
}

bool train(const Options& options, const Text& text, at::Device device) {
  const std::int64_t rows = 16;
  torch::manual_seed(0);
  GPT model(GPTConfig{});
  model->to(device);
  introduce(model, text, device, rows, options.steps);

  Recipe trainer{
      model, AdamW{.lr = 6e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1, .groups = {no_decay()}},
      CosineAnnealingLR{
          .T_max = options.steps, .eta_min = 3e-4, .warmup_steps = options.steps / 20}};
  std::cout << trainer.describe() << std::endl;

  const std::int64_t context = model->config.context;
  auto validation = Windows(text.validation, 64, context, /*seed=*/2).next(options.quick ? 2 : 16);
  double before = trainer.evaluate(validation).loss;
  learn(trainer, Windows(text.train, rows, context, /*seed=*/1), options.steps);
  double after = trainer.evaluate(validation).loss;
  std::printf("\nvalidation loss: %.4f -> %.4f\n", before, after);
  std::printf("(nats per byte, on text it was not trained on; a uniform guess costs %.4f)\n\n",
              std::log(256.0));
  std::cout << "It writes:\n"
            << printable(model->generate("\n", options.quick ? 50 : 400)) << "\n\n";
  return after < before;
}

void remove_policies(const Options& options, const Text& text, at::Device device) {
  Trial trial{{.layers = 6, .width = 384, .heads = 6, .context = 256}, text.train, device};
  if (options.quick) trial = {{.layers = 2, .width = 32, .heads = 2}, text.train, device, 8, 1, 2};
  std::printf(
      "What each policy does, on %lld layers, %lld wide, %lld windows of %lld bytes;\n"
      "median of %d steps, %d rounds of a fresh model and %d steps, the first not timed:\n\n",
      static_cast<long long>(trial.config.layers), static_cast<long long>(trial.config.width),
      static_cast<long long>(trial.rows), static_cast<long long>(trial.config.context),
      trial.rounds * (trial.steps - 1), trial.rounds, trial.steps);
  std::fflush(stdout);
  compare(one_policy_less, trial);
  std::printf(
      "\nThe table is measured at 384 wide: at 128 wide there are only some MiB to save, and\n"
      "checkpointing and accumulation cost more time than those are worth. The losses differ\n"
      "by the rounding of BF16 and by clipping.\n");
}

/// Most of a tiny model's step is the host's work for each operator, which a replay leaves out.
void capture_tiny_steps(const Options& options, const Text& text) {
  const GPTConfig tiny{.layers = 2, .width = 16, .heads = 2, .context = 16};
  auto make = [&]<class T>(std::type_identity<T>) {
    torch::manual_seed(0);
    return T(GPT(tiny));
  };
  using Eager = Trainer<GPT, AdamW, ClipGradNorm>;
  using Captured = Trainer<GPT, AdamW, ClipGradNorm, Capture<WholeStep>>;
  Eager eager = make(std::type_identity<Eager>());
  Captured captured = make(std::type_identity<Captured>());
  const Tokens batch = Windows(text.train, 4, tiny.context, /*seed=*/1).next();
  std::vector<double> times[2];
  bool equal = true;
  for (int round = 0; round < (options.quick ? 40 : 200); ++round) {
    const Report a = eager.step(batch), b = captured.step(batch);
    times[0].push_back(a.seconds), times[1].push_back(b.seconds);
    equal = equal && a.loss() == b.loss();
  }
  for (auto& all : times) std::sort(all.begin(), all.end());
  std::printf(
      "\nA step of a tiny GPT (2 layers, 16 wide): %.0f us, and %.0f us with Capture<WholeStep>;\n"
      "the losses of both are %s. Its operators, with their times:\n\n%s",
      1e6 * times[0][times[0].size() / 2], 1e6 * times[1][times[1].size() / 2],
      equal ? "equal" : "NOT equal", options.quick ? "" : captured.tape().c_str());
}

int main(int argc, char** argv) try {
  Options options = parse(argc, argv);
  Text text = read_text(options.text, /*min_bytes=*/10'000);
  at::Device device = torch::cuda::is_available() ? at::kCUDA : at::kCPU;
  bool learned = train(options, text, device);
  remove_policies(options, text, device);
  if (device.is_cpu()) capture_tiny_steps(options, text);
  if (!learned) std::cerr << "demo: the validation loss did not fall.\n";
  return learned ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "demo: " << error.what() << '\n';
  return 1;
}
