// ctest:
// Two tasks on reviews of different lengths: the tone of each token, and the stars of a review,
// which a third of them have. So the terms of the loss are over different numbers of items.
//
// Samples of different lengths are a Ragged. A term is a sum and a count, and the step divides by
// the counts of all its microbatches: each token weighs the same, and so does each review with
// stars, as `main` compares with the whole batch. In PyTorch:
//   pad_sequence in a collate_fn, and a mask                  Ragged, and pad in the model
//   tones_loss + 5 * stars_loss, each a mean                  Loss::terms, the last with a scale
//   loss / 4 of each microbatch, wrong where counts differ    Accumulate<4>, and count
//   F.mse_loss(stars[rated], ...), NaN if none has stars   a sum over none, and a count of 0
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

constexpr std::int64_t vocabulary = 40, negation = 1;  // 0 is padding

struct Reviews {
  Ragged tokens, tones;  // the tone of each token: 0 bad, 1 neutral, 2 good
  at::Tensor stars;      // the mean tone of a review; NaN if it has none
};

/// Reviews of 3 to 20 tokens, each of which has a tone. A negation reverses that of the next.
struct Corpus {
  std::int64_t reviews;

  std::int64_t size() const { return reviews; }
  Reviews get(std::int64_t, SampleRng& rng) const {
    at::Tensor text = at::randint(2, vocabulary, {3 + rng.randint(18)}, rng.generator(), at::kLong);
    text.masked_fill_(at::rand(text.sizes(), rng.generator()) < 0.2, negation);
    at::Tensor tone = at::where(text == negation, 0, text % 3 - 1);
    tone.slice(0, 1).mul_(1 - 2 * (text.slice(0, 0, -1) == negation).to(at::kLong));
    const at::Tensor stars = tone.to(at::kFloat).mean();
    return {Ragged{{text}}, Ragged{{tone + 1}}, rng.randint(3) == 0 ? stars : stars * NAN};
  }
};

struct ReaderImpl : nn::Module {
  nn::Embedding embedding{nn::EmbeddingOptions(vocabulary, 32).padding_idx(0)};  // the row of zeros
  nn::Conv1d pairs{nn::Conv1dOptions(32, 64, 3).padding(1)};
  nn::Linear tone{64, 3}, star{64, 1};
  ReaderImpl() {
    register_module("embedding", embedding), register_module("pairs", pairs);
    register_module("tone", tone), register_module("star", star);
  }
  /// Returns the logits of the tones, (all tokens, 3), and of the stars, (reviews).
  std::pair<at::Tensor, at::Tensor> forward(const Ragged& text) {
    const Padded padded = pad(text);
    const at::Tensor x = embedding(padded.values).transpose(1, 2);
    const at::Tensor each = at::relu(pairs(x)).transpose(1, 2) * padded.mask.unsqueeze(2);
    const at::Tensor mean = each.sum(1) / padded.lengths.unsqueeze(1);
    return {tone(each.index({padded.mask})), star(mean).squeeze(1)};
  }
  template <class Run>
  Loss loss(Run&, const Reviews& batch) {
    const auto [tones, stars] = forward(batch.tokens);
    const at::Tensor rated = batch.stars.isfinite();
    const at::Tensor of_tones =
        at::cross_entropy_loss(tones, batch.tones.values(), {}, at::Reduction::Sum);
    const at::Tensor of_stars = at::mse_loss(stars.masked_select(rated),
                                             batch.stars.masked_select(rated), at::Reduction::Sum);
    const auto n = count(batch);
    return {.terms = {{"tones", of_tones, n[0]}, {"stars", of_stars, n[1], 5}}};
  }
  /// Counts each term before the first backward, since the step divides by the counts of all parts.
  std::vector<Count> count(const Reviews& batch) const {
    return {batch.tokens.values().size(0), batch.stars.isfinite().sum()};
  }
};
TORCH_MODULE(Reader);

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  DataLoader training{Corpus{2048}, {.batch_size = 32, .seed = 1}};
  Trainer trainer{Reader(), AdamW{.lr = 5e-3}, Accumulate<4>{}};
  // For four microbatches the step reports what PyTorch's means are of the whole batch.
  const Reviews batch = *training.begin();
  const auto [tones, stars] = trainer.predict(batch.tokens);
  const at::Tensor tones_mean = at::cross_entropy_loss(tones, batch.tones.values());
  const at::Tensor stars_mean = (stars - batch.stars).square().nanmean();
  const Report first = trainer.step(batch);
  const bool is_exact = std::abs(first.term("tones") - tones_mean.item<double>()) < 1e-5 &&
                        std::abs(first.term("stars") - stars_mean.item<double>()) < 1e-5;
  std::cout << first << "\n";

  trainer.fit(training, {.epochs = 5});
  const Reviews test = *DataLoader{Corpus{512}, {.batch_size = 512, .seed = 2}}.begin();
  const auto [found, guessed] = trainer.predict(test.tokens);
  const at::Tensor right = (found.argmax(1) == test.tones.values()).to(at::kFloat).mean();
  const at::Tensor error = (guessed - test.stars).square().nanmean();
  const at::Tensor variance = (test.stars - test.stars.nanmean()).square().nanmean();
  const double accuracy = right.item<double>(), explained = 1 - (error / variance).item<double>();
  std::cout << "held out: tones " << accuracy << " right, R2 of stars " << explained << '\n';
  return is_exact && accuracy > 0.97 && explained > 0.85 ? 0 : 1;
}
