// ctest:
// Truncated backpropagation: an LSTM reads texts that are far longer than a batch, in chunks of
// eight symbols. Its state goes from chunk to chunk without its graph.
//
// In a text as `c...?cf.....?fa.?a`, a letter is followed by one to five dots, a question mark, and
// the letter again. If a border lies between, only the state has seen the letter.
//
// The objective holds the state, one for training and one for validation. ClipGradNorm is for the
// gradients of recurrent nets, which explode. In PyTorch:
//   hidden = tuple(h.detach() for h in hidden)       state = ...detach(), in the objective
//   clip_grad_norm_(model.parameters(), 1.0)         ClipGradNorm
//   model.eval(), torch.no_grad(), hidden = None     .validate, run.evaluating, .on_epoch
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
#include <random>
using namespace ikebana;
namespace nn = torch::nn;

constexpr std::int64_t letters = 8, pause = 8, question = 9, symbols = 10, length = 8;

/// (rows, length) symbols and the next ones; `crosses` marks what an earlier chunk has shown.
struct Chunk {
  at::Tensor input, target, crosses;
};

/// Returns 32 texts of `chunks` chunks, in their order.
std::vector<Chunk> texts(std::int64_t chunks, std::uint32_t seed) {
  std::mt19937 random(seed);
  auto draw = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t end = chunks * length + 1;
  at::Tensor text = at::full({32, end + 12}, pause), crosses = at::zeros({32, end + 12}, at::kBool);
  for (std::int64_t row = 0; row < 32; ++row)
    for (std::int64_t begin = 0; begin < end;) {
      const std::int64_t letter = draw(letters), asked = begin + 2 + draw(5);
      text[row][begin] = text[row][asked + 1] = letter, text[row][asked] = question;
      crosses[row][asked + 1] = begin / length != asked / length;
      begin = asked + 2;
    }
  std::vector<Chunk> all;
  for (std::int64_t begin = 0; begin + 1 < end; begin += length)
    all.push_back({text.narrow(1, begin, length), text.narrow(1, begin + 1, length),
                   crosses.narrow(1, begin + 1, length)});
  return all;
}

using State = std::optional<std::tuple<at::Tensor, at::Tensor>>;  // none: zeros

struct ReaderImpl : nn::Module {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(symbols, 64));
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(64, 64).batch_first(true)));
  nn::Linear head = register_module("head", nn::Linear(64, symbols));

  /// Returns logits, (rows, length, symbols), and the state after the chunk.
  std::pair<at::Tensor, State> forward(const at::Tensor& text, const State& before) {
    auto [x, after] = lstm(embedding(text), before);
    return {head(x), after};
  }
};
TORCH_MODULE(Reader);

/// The fraction of letters that are recalled across a border.
struct Recall {
  std::string name = "recall";
  at::Tensor right = at::zeros({}), all = at::zeros({});
  void update(const Chunk& chunk, const at::Tensor& logits) {
    right += (chunk.crosses & (logits.argmax(-1) == chunk.target)).sum();
    all += chunk.crosses.sum();
  }
  double value() const { return (right / all).item<double>(); }
};

double recall(bool carries_state) {
  torch::manual_seed(0);
  const auto training = texts(60, 1), held_out = texts(30, 2);
  State of_training, of_validation;
  auto objective = [&](auto& run, Reader& model, const Chunk& chunk) {
    State& state = run.evaluating ? of_validation : of_training;
    auto [logits, after] = run(model, chunk.input, carries_state ? state : State());
    state = std::tuple{std::get<0>(*after).detach(), std::get<1>(*after).detach()};
    at::Tensor sum = at::cross_entropy_loss(logits.flatten(0, 1), chunk.target.flatten(), {},
                                            at::Reduction::Sum);
    return Loss{.sum = sum, .count = chunk.target.numel(), .outputs = logits};
  };
  Trainer trainer{Reader(), objective, AdamW{.lr = 1e-2}, ClipGradNorm{.max_norm = 1}};
  auto begin_again = [&](const Epoch&) { of_training = of_validation = std::nullopt; };
  const History history = trainer.fit(
      training,
      {.epochs = 10, .validate = held_out, .metrics = {Recall{}}, .on_epoch = begin_again});
  const Evaluation end = *history.back().validation;
  std::cout << (carries_state ? "with   " : "without") << " the state of the chunk before: loss "
            << end.loss << " per symbol, recall across borders " << end["recall"] << '\n';
  return end["recall"];
}

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  return recall(true) > 0.85 && recall(false) < 0.3 ? 0 : 1;  // chance is 1/8
}
