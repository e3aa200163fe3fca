// Says how much memory training a GPT or a Llama takes, before anything is allocated.
//   ikebana-estimate --preset llama-70b --checkpoint full --precision bf16 --ranks 64
//   ikebana-estimate llama --layers 32 --width 4096 --heads 32 --kv-heads 8 --intermediate 14336
//       --vocab 128256 --rows 1 --length 4096 --json
// A recipe is a type, so a program offers the recipes that are compiled into it: `recipes` below.
// Other recipes and models are estimated by a program of their own, in a line: `estimate<Recipe>`.
// Exit status: 0, or 2 if the arguments cannot be used.
#include <ikebana/estimate.hpp>
#include <ikebana/shard.hpp>
#include <iostream>

#include "estimate_arguments.hpp"
#include "models/gpt.hpp"
#include "models/llama.hpp"
using namespace ikebana;
using namespace estimate_arguments;

/// A GPT or a Llama, so that each recipe is compiled for one model type.
struct LanguageModelImpl : torch::nn::Module {
  using units = Units<Block, LlamaBlock>;

  explicit LanguageModelImpl(const Shape& shape) {
    if (shape.model == "gpt") make_gpt(shape);
    else make_llama(shape);
  }
  template <class Run>
  Loss loss(Run& run, const Tokens& batch) {
    return gpt ? gpt->loss(run, batch) : llama->loss(run, batch);
  }
  std::int64_t count(const Tokens& batch) const { return batch.target.numel(); }

 private:
  void make_gpt(const Shape& s) {
    GPT model(
        GPTConfig{.layers = s.layers, .width = s.width, .heads = s.heads, .context = s.length});
    model->token = model->replace_module("token", torch::nn::Embedding(s.vocab, s.width));
    gpt = register_module("gpt", model);
  }
  void make_llama(const Shape& s) {
    llama = register_module("llama", Llama(LlamaConfig{.vocab_size = s.vocab,
                                                       .hidden_size = s.width,
                                                       .intermediate_size = s.intermediate,
                                                       .num_hidden_layers = s.layers,
                                                       .num_attention_heads = s.heads,
                                                       .num_key_value_heads = s.kv_heads}));
  }
  GPT gpt{nullptr};
  Llama llama{nullptr};
};
TORCH_MODULE(LanguageModel);

template <class... Policies>
Estimate estimate_of(const Arguments& arguments) {
  const auto tokens = at::empty({arguments.shape.rows, arguments.shape.length},
                                at::TensorOptions(at::kMeta).dtype(at::kLong));
  return estimate<Trainer<LanguageModel, Policies...>>(
      [&] { return LanguageModel(arguments.shape); }, Tokens{tokens, tokens.clone()},
      EstimateOptions{.ranks = arguments.ranks > 1 ? arguments.ranks : 0});
}

/// One recipe of this program, by the arguments that choose it.
struct OfferedRecipe {
  const char *precision, *optimizer, *checkpoint;
  Estimate (*on_one_rank)(const Arguments&);
  Estimate (*on_ranks)(const Arguments&);  // Shard<FSDP>
};
template <class... Policies>
OfferedRecipe offer(const char* precision, const char* optimizer, const char* checkpoint) {
  return {precision, optimizer, checkpoint, estimate_of<Policies...>,
          estimate_of<Policies..., Shard<FSDP>>};
}

/// Each line is compiled twice, a few seconds each.
const OfferedRecipe offered[] = {
    offer<AdamW>("fp32", "adamw", "off"),
    offer<AdamW, Checkpoint<Full>>("fp32", "adamw", "full"),
    offer<AdamW, Precision<BF16>>("bf16", "adamw", "off"),
    offer<AdamW, Precision<BF16>, Checkpoint<Full>>("bf16", "adamw", "full"),
    offer<AdamW, Precision<BF16>, Checkpoint<Selective>>("bf16", "adamw", "selective"),
    offer<AdamW8bit, Precision<BF16Weights>, Checkpoint<Full>>("bf16-weights", "adamw8bit", "full"),
};

void print_help() {
  std::cout
      << R"(Says how much memory one rank needs to train a model, before anything is allocated.

usage: ikebana-estimate gpt|llama|--preset gpt2|llama-7b|llama-70b [--name value]...

  the model, where it is not that of gpt2 or llama-7b, or of the preset:
    --layers --width --heads --vocab, of a Llama also --kv-heads --intermediate
  the batch of a rank: --rows (1), --length (1024 for a GPT, which has as many positions, 4096)
  --ranks n            that share parameters, gradients and state by Shard<FSDP> (1)
  --csv, --json        instead of a table
  --precision, --optimizer and --checkpoint (fp32 adamw off) are one of:
)";
  for (const OfferedRecipe& recipe : offered)
    std::cout << "    " << recipe.precision << ' ' << recipe.optimizer << ' ' << recipe.checkpoint
              << '\n';
}

Estimate run(const Arguments& arguments) {
  for (const OfferedRecipe& recipe : offered)
    if (arguments.precision == recipe.precision && arguments.optimizer == recipe.optimizer &&
        arguments.checkpoint == recipe.checkpoint)
      return (arguments.ranks > 1 ? recipe.on_ranks : recipe.on_one_rank)(arguments);
  throw Wrong("the recipe " + arguments.precision + " " + arguments.optimizer + " " +
              arguments.checkpoint +
              " is not compiled into this program. --help lists those that "
              "are.");
}

/// Also prints everything that was not given.
void print_question(const Arguments& a) {
  const Shape& s = a.shape;
  std::cout << s.model << " of " << s.layers << " layers, " << s.width << " wide, " << s.heads
            << " heads";
  if (s.model == "llama")
    std::cout << ", " << s.kv_heads << " of keys and values, intermediate " << s.intermediate;
  std::cout << ", vocabulary " << s.vocab << "; batch " << s.rows << " x " << s.length
            << " on each of " << a.ranks << " rank(s); " << a.precision << ' ' << a.optimizer << ' '
            << a.checkpoint << '\n';
}

int main(int argc, char** argv) try {
  const Arguments arguments = Reader(argc, argv).read();
  if (arguments.help) return print_help(), 0;
  const Estimate estimated = run(arguments);
  if (arguments.format == "json") std::cout << estimated.json();
  else if (arguments.format == "csv") std::cout << estimated.csv();
  else print_question(arguments), std::cout << estimated;
  return 0;
} catch (const std::exception& error) {
  std::cerr << "ikebana-estimate: " << ikebana::detail::exception_text(error) << '\n';
  return 2;
}
