// Fine-tunes a pretrained Llama in the format of Hugging Face's transformers on the tokens of a
// text, by a recipe that is chosen by name. `make finetune` calls it: docs/finetune.md.
//   finetune FOLDER TOKENS [name=value...]
// FOLDER holds config.json and the weights; TOKENS is a file of scripts/finetune/tokens.py.
// recipe=NAME    fp32, the default, or bf16
// device=NAME    cpu, the default, or cuda, with kernels that give the same bits
// states=FOLDER  saves states there four times, and continues from the newest one
// end=PATH       writes the state after the last step
// show=0         prints no perplexity and no text before and after the training
// logits=PATH    writes the logits of the first held-out window, and does not train
#include <algorithm>
#include <cmath>
#include <ikebana/any_trainer/recipes.hpp>
#include <iostream>

#include "models/llama_folder.hpp"
#include "named_values.hpp"
#include "text.hpp"
#include "token_file.hpp"
using namespace ikebana;

using Finetuning = AnyTrainer<Tokens>;

Finetuning fp32(const Llama& llama) {
  return Trainer{llama, AdamW{.lr = 1e-4}, ClipGradNorm{}, Observe<Memory>{}};
}
Finetuning bf16(const Llama& llama) {
  return Trainer{llama,
                 AdamW{.lr = 1e-4},
                 Precision<BF16>{},        // autocast
                 Checkpoint<Selective>{},  // keeps matrix products, recomputes what is cheap
                 ClipGradNorm{},
                 Observe<Memory>{}};  // the peak of each step in its report
}

/// Prints the perplexity on the held-out windows, and how the model continues the prompt.
void show(const char* when, Finetuning& trainer, Llama& llama, const TokenFile& file) {
  const TensorDataset held_out{file.held_out()};
  DataLoader loader{held_out, {.batch_size = file.rows()}};
  std::cout << "perplexity " << when << ": " << std::exp(trainer.evaluate(loader).loss) << '\n';
  const at::Tensor tokens = llama->generate(
      file.prompt().to(llama->head().device()),
      {.max_new_tokens = 60, .sampling = {.temperature = 0.7, .top_p = 0.9}, .seed = 1});
  std::cout << "text " << when << ": " << printable(file.text(tokens[0].cpu())) << "\nend of text"
            << std::endl;
}

void finetune(Llama& llama, const TokenFile& file, const NamedValues& options) {
  Recipes<Tokens, const Llama&> recipes;
  recipes.add("fp32", fp32).add("bf16", bf16);
  Finetuning trainer = recipes.make(options.get("recipe", "fp32"), llama);
  const bool shows = options.get("show") != "0";
  if (shows) std::cout << trainer.describe();
  if (shows) show("before", trainer, llama, file);

  const std::string states = options.get("states");
  DataLoader loader{TensorDataset{file.train()}, {.batch_size = file.rows()}};
  trainer.fit(loader,
              {.on_step = [](const Report& r) { std::cout << r << std::endl; },
               .progress = false,
               .save_to = states,
               .save_every = states.empty() ? 0 : std::max<std::int64_t>(1, file.steps() / 4),
               .resume = !states.empty()});
  if (shows) show("after", trainer, llama, file);
  if (const auto path = options.get("end"); !path.empty()) save_tensors(path, trainer.state());
}

int main(int argc, char** argv) try {
  if (argc < 3) throw Error("usage: finetune FOLDER TOKENS [name=value...]; see finetune.cpp");
  const NamedValues options(argv + 3, argv + argc,
                            {"recipe", "device", "states", "end", "show", "logits"});
  const std::filesystem::path folder = argv[1];
  const TokenFile file(argv[2]);

  torch::manual_seed(0);  // the state of the generator is saved, too
  Llama llama(read_config(folder));
  load_weights(llama, folder);  // under Hugging Face's names
  const c10::Device device(options.get("device", "cpu"));
  llama->to(device);
  at::globalContext().setDeterministicAlgorithms(!device.is_cpu(), /*warn_only=*/false);
  if (const auto path = options.get("logits"); !path.empty()) {
    const at::NoGradGuard no_grad;
    const at::Tensor tokens = file.held_out().input.slice(0, 0, 1).to(device);
    save_tensors(path, {{"tokens", tokens}, {"logits", llama->logits(tokens)}});
  } else {
    finetune(llama, file, options);
  }
  return 0;
} catch (const c10::Error& error) {  // without the stack, which is for those who change LibTorch
  std::cerr << error.what_without_backtrace() << '\n';
  return 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
