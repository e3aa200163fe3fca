// Fine-tunes a language model that Python has exported, without a line of the model in C++. `make
// finetune` calls it: docs/finetune.md.
//   finetune_program MODEL.pt2 TOKENS [name=value...]
// MODEL.pt2 is a program of torch.export whose output `logits` follows from rows of tokens, as
// scripts/finetune/export.py writes it; TOKENS is a file of scripts/finetune/tokens.py.
// states=FOLDER  saves states there four times, and continues from the newest one
// end=PATH       writes the state after the last step
// out=PATH       writes the trained program, which Python opens by torch.export.load
// show=0         prints no perplexity before and after the training
#include <algorithm>
#include <cmath>
#include <ikebana/program.hpp>
#include <iostream>

#include "named_values.hpp"
#include "token_file.hpp"
using namespace ikebana;

void finetune(Program& model, const TokenFile& file, const NamedValues& options) {
  Trainer trainer{model,
                  CrossEntropyLoss{.class_dim = -1},
                  AdamW{.lr = 1e-4},
                  Checkpoint<Selective>{},
                  ClipGradNorm{},
                  Observe<Memory>{}};
  const TensorDataset held_out{file.held_out()};
  DataLoader unseen{held_out, {.batch_size = file.rows()}};
  auto show = [&](const char* when) {
    if (options.get("show") == "0") return;
    std::cout << "perplexity " << when << ": " << std::exp(trainer.evaluate(unseen).loss) << '\n';
  };
  show("before");
  const std::string states = options.get("states");
  DataLoader loader{TensorDataset{file.train()}, {.batch_size = file.rows()}};
  trainer.fit(loader,
              {.on_step = [](const Report& r) { std::cout << r << std::endl; },
               .progress = false,
               .save_to = states,
               .save_every = states.empty() ? 0 : std::max<std::int64_t>(1, file.steps() / 4),
               .resume = !states.empty()});
  show("after");
  if (const auto path = options.get("end"); !path.empty()) save_tensors(path, trainer.state());
  if (const auto path = options.get("out"); !path.empty()) export_program(trainer, path);
}

int main(int argc, char** argv) try {
  if (argc < 3) throw Error("usage: finetune_program MODEL.pt2 TOKENS [name=value...]");
  const NamedValues options(argv + 3, argv + argc, {"states", "end", "out", "show"});
  Program model = load_program(argv[1], {.output = "logits"});
  torch::manual_seed(0);  // the state of the generator is saved, too
  finetune(model, TokenFile(argv[2]), options);
  return 0;
} catch (const c10::Error& error) {  // without the stack, which is for those who change LibTorch
  std::cerr << error.what_without_backtrace() << '\n';
  return 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
