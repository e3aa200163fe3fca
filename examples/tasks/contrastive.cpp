// ctest:
// Contrastive pairs, as CLIP (Radford et al., 2021): an encoder of pictures and one of captions
// learn to point in the same direction for a pair, and in others for all other pairs of a batch.
// A picture is a shape in a colour at a place; one sixth of the combinations is only tested with.
//
// The loss compares each row of a batch with every other, so the recipe has no Accumulate: parts of
// a batch would have fewer pairs to compare. ClipGradNorm and the warm-up are for the temperature,
// which is learned; it, biases and norms do not decay. In PyTorch:
//   (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2    Loss::terms
//   SequentialLR([LinearLR, CosineAnnealingLR]), scheduler.step()          .warmup_steps, no call
//   two param_groups, with weight_decay 0.01 and 0                         no_decay()
//   model.eval(), torch.no_grad(), model(...), model.train()               predict
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

struct Pairs {
  at::Tensor picture, caption;  // (N, 3, 12, 12), and the three symbols of a caption, (N, 3)
};

/// Returns all combinations of 4 shapes, 4 colours and 9 places.
Pairs all_pairs() {
  at::Tensor shape = at::zeros({4, 4, 4}),
             colour = at::tensor({1., 0., 0., 0., 1., 0., 0., 0., 1., 1., 1., 0.}).view({4, 3});
  shape[0].fill_(1), shape[1].fill_diagonal_(1), shape[2].narrow(0, 1, 2).fill_(1);
  shape[3].copy_(1 - at::constant_pad_nd(at::ones({2, 2}), {1, 1, 1, 1}));
  Pairs all{at::zeros({144, 3, 12, 12}), at::zeros({144, 3}, at::kLong)};
  for (std::int64_t i = 0; i < 144; ++i) {
    std::int64_t kind = i % 4, paint = i / 4 % 4, place = i / 16;
    at::Tensor drawn = colour[paint].view({3, 1, 1}) * shape[kind];
    all.picture[i].narrow(1, place / 3 * 4, 4).narrow(2, place % 3 * 4, 4).copy_(drawn);
    all.caption[i].copy_(at::tensor({kind, 4 + paint, 8 + place}));
  }
  return all;
}
Pairs with_noise(Pairs pairs) {
  pairs.picture = pairs.picture + 0.3 * at::randn_like(pairs.picture);
  return pairs;
}

struct CLIPImpl : nn::Module {
  nn::Sequential picture = register_module(
      "picture", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 32, 3).padding(1)), nn::ReLU(),
                                nn::Conv2d(nn::Conv2dOptions(32, 32, 4).stride(4)), nn::ReLU(),
                                nn::Flatten(), nn::Linear(288, 32)));
  nn::Embedding symbols = register_module("symbols", nn::Embedding(17, 32));
  nn::Sequential caption = register_module(
      "caption", nn::Sequential(nn::Flatten(), nn::Linear(96, 64), nn::ReLU(), nn::Linear(64, 32)));
  at::Tensor log_scale = register_parameter("log_scale", at::full({}, std::log(10.0)));

  /// Returns the similarity of each picture (row) to each caption (column).
  at::Tensor forward(const at::Tensor& pictures, const at::Tensor& captions) {
    at::Tensor a = nn::functional::normalize(picture->forward(pictures));
    at::Tensor b = nn::functional::normalize(caption->forward(symbols(captions)));
    return log_scale.exp() * a.matmul(b.t());
  }
};
TORCH_MODULE(CLIP);

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  Pairs all = all_pairs();
  at::Tensor order = at::randperm(144), held_out = order.narrow(0, 0, 24);
  Pairs training = index_select(all, order.narrow(0, 24, 120));

  auto objective = [](auto& run, CLIP& model, const Pairs& batch) {
    at::Tensor logits = run(model, batch.picture, batch.caption);
    at::Tensor own = at::arange(logits.size(0));  // the caption of each picture
    auto wrong = [&](const at::Tensor& x) {
      return at::cross_entropy_loss(x, own, {}, at::Reduction::Sum);
    };
    return Loss{.terms = {{"pictures", wrong(logits), own.numel(), 0.5},
                          {"captions", wrong(logits.t()), own.numel(), 0.5}}};
  };
  Trainer trainer{CLIP(), objective, AdamW{.lr = 3e-3, .groups = {no_decay()}},
                  CosineAnnealingLR{.T_max = 300, .warmup_steps = 20}, ClipGradNorm{}};
  for (int i = 0; i < 320; ++i) {
    Report report = trainer.step(with_noise(training));
    if (i % 64 == 0) std::cout << report << '\n';
  }

  // Which of all 144 captions is the most similar to a picture of a combination never seen?
  at::Tensor logits = trainer.predict(with_noise(index_select(all, held_out)).picture, all.caption);
  double found = logits.argmax(1).eq(held_out).to(at::kFloat).mean().template item<double>();
  std::cout << found << " of the held-out pictures find their caption among 144\n";
  return found > 0.5 ? 0 : 1;
}
