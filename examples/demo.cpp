// ctest: --quick
// The main job: a small language model learns from a text, and then every word of its recipe is taken
// away in turn, to see what it does to memory and time.
#include <cstdlib>
#include <iostream>

#include "words.hpp"

using namespace ikebana;

using Recipe = Trainer<GPT, AdamW, CosineAnnealingLR, Precision<BF16>, Checkpoint<Full>, Accumulate<4>,
                       ClipGradNorm, Observe<Memory>>;

const std::vector<Row> words = {
    {"the whole recipe", round_of<Trainer<GPT, AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>>},
    {"without Precision<BF16>", round_of<Trainer<GPT, AdamW, Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>>},
    {"without Checkpoint<Full>", round_of<Trainer<GPT, AdamW, Precision<BF16>, Accumulate<4>, ClipGradNorm, Observe<Memory>>>},
    {"without Accumulate<4>", round_of<Trainer<GPT, AdamW, Precision<BF16>, Checkpoint<Full>, ClipGradNorm, Observe<Memory>>>},
    {"without ClipGradNorm", round_of<Trainer<GPT, AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, Observe<Memory>>>},
    {"without Observe<Memory>", round_of<Trainer<GPT, AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm>>},
};

struct Options {
  std::string text = libtorch_headers();
  std::int64_t steps = 1000, rows = 32;
  double lr = 3e-3;
  bool quick = false;
};
double env(const char* n, double d) { auto p = std::getenv(n); return p ? std::atof(p) : d; }

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--steps") options.steps = std::atoi(argv[++i]);
    else if (a == "--quick") options.quick = true;
    else options.text = a;
  }
  options.lr = env("LR", 3e-3); options.rows = env("ROWS", 32);
  GPTConfig config;
  Text text = read_text(options.text, 10000);
  Windows windows(text.train, options.rows, config.context, 1);
  auto validation = Windows(text.validation, 64, config.context, 2).next(16);
  torch::manual_seed(0);
  GPT model(config);
  Recipe trainer{model, AdamW{.lr = options.lr, .betas = {0.9, env("B2", 0.99)}, .weight_decay = env("WD", 0.1), .groups = {no_decay()}},
     CosineAnnealingLR{.T_max = options.steps, .eta_min = options.lr * env("ETA", 0.1), .warmup_steps = options.steps / 20}};
  double before = trainer.evaluate(validation).loss;
  auto b = std::chrono::steady_clock::now();
  {
    Progress progress(true, options.steps, "tokens");
    for (std::int64_t i = 0; i < options.steps; ++i) {
      Report r = trainer.step(windows.next());
      progress.draw(0, r);
      if (i % (options.steps / 10) == 0) std::cout << r << std::endl;
    }
  }
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - b).count();
  std::printf("validation loss: %.4f -> %.4f   %.1f s, %.0f tok/s\n", before, trainer.evaluate(validation).loss, s, options.steps * options.rows * 64 / s);
  if (std::getenv("TABLE")) compare(words, Trial{.config = {6, 384, 6, 256}, .text = text.train, .rows = (int)env("TROWS", 16)});
  else std::cout << model->generate("\n", 300) << std::endl;
}
