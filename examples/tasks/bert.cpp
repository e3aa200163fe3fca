// ctest:
// A masked language model, as BERT: it fills in tokens behind a mask. A row is a sentence and its
// translation, as in XLM. Tokens are drawn independently, so that their neighbours tell nothing of
// them, and the best guess by frequency is right once in 16 times: the rest is in the translation.
//
// Rows differ in length, and every epoch masks other tokens. A step cuts its batch into two
// microbatches with different numbers of masked tokens, and divides once, by all of them. `units`
// and `run(layer, x, ...)` in the model let policies wrap each layer. In PyTorch:
//   DataCollatorForLanguageModeling(mlm_probability=0.15)    get(index, SampleRng&)
//   pad_sequence, attention_mask, labels of -100             PadCollate
//   (loss / 2).backward() twice: a mean of two means         Accumulate<2>, one mean
//   get_linear_schedule_with_warmup(optimizer, 30, 192)      LinearLR{.warmup_steps = 30}
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

constexpr std::int64_t tokens = 16, mask = 2 * tokens, vocabulary = mask + 1, longest = 8;

/// As Hugging Face names them: (length), and in a batch, which alone has a mask, (rows, length).
struct Text {
  at::Tensor input_ids, token_type_ids, position_ids, labels, attention_mask;
};

/// Sentences of four to eight tokens, and the same in tokens of the other language.
struct Corpus {
  std::int64_t sentences;

  std::int64_t size() const { return sentences; }
  Text get(std::int64_t, SampleRng& rng) const {
    const std::int64_t n = 4 + rng.randint(longest - 3);
    const at::Tensor sentence = at::randint(tokens, {n}, rng.generator(), at::kLong);
    const at::Tensor text = at::cat({sentence, (sentence * 5 + 3) % tokens + tokens});
    at::Tensor input = text.clone(), labels = at::full({2 * n}, -100, at::kLong);
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      if (rng.uniform() >= 0.15) continue;
      labels[i] = text[i];
      const double kind = rng.uniform();  // 80 % masked, 10 % another token, 10 % as they are
      if (kind < 0.9) input[i] = kind < 0.8 ? mask : rng.randint(2 * tokens);
    }
    const at::Tensor place = at::arange(2 * n);
    return {input, (place >= n).to(at::kLong), place % n, labels, {}};
  }
};

struct BertImpl : nn::Module {
  using Layer = nn::TransformerEncoderLayer;
  using units = Units<Layer>;
  nn::Embedding token = register_module("token", nn::Embedding(vocabulary, 64));
  nn::Embedding type = register_module("token_type", nn::Embedding(2, 64));
  nn::Embedding position = register_module("position", nn::Embedding(longest, 64));
  std::vector<Layer> layers;
  nn::Linear head = register_module("head", nn::Linear(64, vocabulary));

  BertImpl() {
    const auto options = nn::TransformerEncoderLayerOptions(64, 4).dim_feedforward(128).dropout(0);
    for (auto name : {"first", "second"}) layers.push_back(register_module(name, Layer(options)));
  }
  /// Takes (rows, length) tokens, and returns (rows, length, vocabulary) logits.
  template <class Run>
  at::Tensor forward(Run& run, const Text& text) {
    at::Tensor x = token(text.input_ids) + type(text.token_type_ids) + position(text.position_ids);
    x = x.transpose(0, 1);  // LibTorch's layers take (length, rows, width)
    const at::Tensor is_padding = text.attention_mask.logical_not();
    for (Layer& layer : layers) x = run(layer, x, at::Tensor(), is_padding);
    return head(x.transpose(0, 1));
  }
  template <class Run>
  Loss loss(Run& run, const Text& text) {
    at::Tensor logits = forward(run, text);
    at::Tensor sum =
        at::cross_entropy_loss(logits.flatten(0, 1), text.labels.flatten(), {}, at::Reduction::Sum);
    return {.sum = sum, .count = (text.labels != -100).sum(), .outputs = logits};
  }
};
TORCH_MODULE(Bert);

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  const PadCollate<Text> pads{{{&Text::input_ids, 0, nullptr, &Text::attention_mask},
                               {&Text::token_type_ids},
                               {&Text::position_ids},
                               {&Text::labels, -100}}};
  DataLoader training{Corpus{4096}, {.batch_size = 64, .seed = 1}, pads};
  DataLoader held_out{Corpus{1024}, {.batch_size = 64, .seed = 2}, pads};
  const LinearLR falling{
      .start_factor = 1, .end_factor = 0, .total_iters = 162, .warmup_steps = 30};
  Trainer trainer{Bert(), AdamW{.lr = 3e-3}, falling, ClipGradNorm{}, Accumulate<2>{}};

  auto print = [](const Epoch& epoch) {
    std::cout << "of masked tokens " << (*epoch.validation)["accuracy"] << " are found\n";
  };
  const History history = trainer.fit(
      training,
      {.epochs = 3, .validate = held_out, .metrics = {Accuracy{.dim = -1}}, .on_epoch = print});
  return (*history.back().validation)["accuracy"] > 0.7 ? 0 : 1;  // a guess by neighbours: 0.06
}
