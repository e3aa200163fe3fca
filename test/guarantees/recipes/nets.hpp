#pragma once
// Defines the models of the loops: two players of a GAN, a recurrent model, a language model.
#include "hand.hpp"

namespace guarantees {

/// A multilayer perceptron: generator, discriminator, critic.
struct PlayerImpl : torch::nn::Module {
  torch::nn::Linear in, out;
  PlayerImpl(std::int64_t from, std::int64_t to) : in(from, 16), out(16, to) {
    register_module("in", in), register_module("out", out);
  }
  at::Tensor forward(at::Tensor x) { return out(at::tanh(in(x))); }
};
TORCH_MODULE(Player);

inline Player player(std::int64_t from, std::int64_t to, std::uint64_t seed) {
  torch::manual_seed(seed);
  return Player(from, to);
}
inline bool no_gradients(Player& model) {
  for (const auto& p : model->parameters())
    if (p.grad().defined()) return false;
  return true;
}

/// The batch of both players. `fake` has the generator's graph.
struct Play {
  at::Tensor real, noise, fake;
};
inline Play play(int step) {
  torch::manual_seed(static_cast<std::uint64_t>(step));
  return {torch::randn({8, 2}) + 1, torch::randn({8, 3}), {}};
}
inline at::Tensor judges(at::Tensor real, at::Tensor fake) {
  return at::softplus(-real).sum() + at::softplus(fake).sum();
}
inline at::Tensor fools(at::Tensor fake) { return at::softplus(-fake).sum(); }

/// Computes the gradient penalty between real and fake rows.
template <class Critic>
at::Tensor critic_loss(Critic&& critic, const Play& rows) {
  auto between = (rows.real * 0.3 + rows.noise.narrow(1, 0, 2) * 0.7).requires_grad_();
  auto slope = torch::autograd::grad({critic(between).sum()}, {between}, {}, true, true)[0];
  return critic(rows.noise.narrow(1, 0, 2)).sum() - critic(rows.real).sum() +
         10 * (slope.norm(2, 1) - 1).pow(2).sum();
}

using Carried = std::optional<std::tuple<at::Tensor, at::Tensor>>;
struct CellImpl : torch::nn::Module {
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(3, 8).batch_first(true)};
  CellImpl() { register_module("lstm", lstm); }
  std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>> forward(at::Tensor x,
                                                                     const Carried& state) {
    return lstm->forward(x, state);
  }
};
TORCH_MODULE(Cell);

/// A recurrent model that takes its state as an argument and returns the next.
struct RecurrentImpl : torch::nn::Module {
  using units = Units<Cell>;
  Cell cell;
  torch::nn::Linear head{8, 1};
  RecurrentImpl() { register_module("cell", cell), register_module("head", head); }
  template <class Run>
  at::Tensor error(Run& run, const Rows& batch, Carried& state) {
    auto [y, next] = run(cell, batch.input, state);
    state = {std::get<0>(next).detach(), std::get<1>(next).detach()};
    return (head(y).squeeze(2) - batch.target).pow(2).sum();
  }
};
TORCH_MODULE(Recurrent);

struct LayerImpl : torch::nn::Module {
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear in{16, 48}, out{48, 16};
  torch::nn::Dropout drop{0.1};
  LayerImpl() {
    register_module("norm", norm), register_module("in", in);
    register_module("out", out), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) { return x + drop(out(at::gelu(in(norm(x))))); }
};
TORCH_MODULE(Layer);

/// Tokens to the next token of each; the embedding is also the head.
struct LanguageImpl : torch::nn::Module {
  using units = Units<Layer>;
  torch::nn::Embedding embed{20, 16};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({16})};
  std::vector<Layer> layers;
  LanguageImpl() {
    register_module("embed", embed), register_module("norm", norm);
    for (int i = 0; i < 3; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), Layer()));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = embed(batch.input);
    for (auto& layer : layers) x = run(layer, x);
    x = at::linear(norm(x), embed->weight).flatten(0, 1);
    return {at::cross_entropy_loss(x, batch.target.flatten(), {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Language);

inline Language language() {
  return seeded([] { return Language(); });
}
inline std::vector<Rows> texts(int steps) {
  torch::manual_seed(6);
  std::vector<Rows> batches;
  for (int i = 0; i < steps; ++i) {
    auto text = torch::randint(20, {10, 7}, at::kLong);
    batches.push_back({text.narrow(1, 0, 6), text.narrow(1, 1, 6)});
  }
  return batches;
}

constexpr double max_norm = 4.5;

/// Trains with all policies at once, or none. Returns losses, parameters and the next random
/// numbers.
inline Tensors language_by_hand(Language model, bool full, std::vector<double>& norms) {
  hand::Products products(full ? at::kBFloat16 : at::kFloat);
  hand::FusedAdamW optimizer(*model, 1e-2, full);
  auto data = texts(5);
  torch::manual_seed(11);
  Tensors losses;
  for (const auto& batch : data) {
    auto count = static_cast<double>(batch.target.numel());
    at::Tensor total;
    for (const auto& part : split(batch, full ? 4 : 1)) {
      at::Tensor sum;
      {
        hand::Autocast autocast(full ? at::kBFloat16 : at::kFloat);
        sum = model->loss(plain, part).sum;
      }
      sum.div(count).backward();
      total = total.defined() ? total + sum.detach() : sum.detach();
    }
    losses.push_back(total / count);
    Tensors gradients;
    for (const auto& p : model->parameters()) gradients.push_back(p.grad());
    auto [divisor, norm] = hand::clipping(gradients, at::ones({}), max_norm);
    norms.push_back(norm.item<double>());
    if (full) optimizer.update(divisor);
    else optimizer.update();
    model->zero_grad();
  }
  for (auto& p : parameters_of(model)) losses.push_back(p);
  losses.push_back(torch::rand({4}));
  return losses;
}

}  // namespace guarantees
