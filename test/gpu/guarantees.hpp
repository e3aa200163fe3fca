#pragma once
// Defines the model and the batches of the cases, and one body for all recipes. What a recipe
// computes on the device agrees with what it computes on the CPU, which other tests check there,
// and no step waits for the device.
#include "device.hpp"

#include <functional>
#include <ikebana.hpp>
#include <ikebana/modules/attention.hpp>

namespace gpu {

using namespace ikebana;

inline const AdamW adamw{.lr = 1e-2};

/// Tokens, and the next token of each; some targets are ignored.
struct Texts {
  at::Tensor input, target;
};

constexpr std::int64_t tokens = 48, width = 32, length = 16;

/// Attention and a multilayer perceptron, each with dropout.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(double dropout) : drop(dropout) {
    register_module("norm", norm), register_module("qkv", qkv), register_module("out", out);
    register_module("up", up), register_module("down", down), register_module("drop", drop);
  }
  static inline int forwards = 0;
  at::Tensor forward(const at::Tensor& x) {
    ++forwards;
    auto heads = [&](const at::Tensor& t) { return t.unflatten(-1, {2, -1}).transpose(1, 2); };
    const auto parts = qkv(norm(x)).chunk(3, -1);
    at::Tensor y =
        modules::attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.is_causal = true});
    y = x + drop(out(y.transpose(1, 2).flatten(2)));
    return y + drop(down(at::gelu(up(y))));
  }

  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({width})};
  // Without a bias: that of the keys has a gradient of rounding errors, which Adam scales up.
  torch::nn::Linear qkv{torch::nn::LinearOptions(width, 3 * width).bias(false)};
  torch::nn::Linear out{width, width}, up{width, 64}, down{64, width};
  torch::nn::Dropout drop;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  explicit NetImpl(double dropout = 0, bool sparse = false)
      : embed(torch::nn::EmbeddingOptions(tokens, width).sparse(sparse)) {
    register_module("embed", embed), register_module("head", head);
    for (int i = 0; i < 3; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block(dropout)));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& text) {
    at::Tensor x = embed(text);
    for (Block& block : blocks) x = run(block, x);
    return head(x);
  }
  /// Takes flattened rows, since LibTorch has no deterministic loss of sequences on CUDA.
  template <class Run>
  Loss loss(Run& run, const Texts& batch) {
    const at::Tensor logits = forward(run, batch.input).flatten(0, 1);
    at::Tensor sum =
        at::cross_entropy_loss(logits, batch.target.flatten(), {}, at::Reduction::Sum, -100);
    return {sum, count(batch), logits.unflatten(0, batch.input.sizes())};
  }
  Count count(const Texts& batch) const { return (batch.target != -100).sum(); }

  torch::nn::Embedding embed;
  std::vector<Block> blocks;
  torch::nn::Linear head{width, tokens};
};
TORCH_MODULE(Net);

/// Makes a net on the CPU, with equal weights at each call.
inline Net net(double dropout = 0, bool sparse = false) {
  torch::manual_seed(3);
  return Net(dropout, sparse);
}
inline std::vector<Texts> texts(int count = 4, std::int64_t rows = 8) {
  torch::manual_seed(5);
  std::vector<Texts> all;
  for (int i = 0; i < count; ++i) {
    const auto text = torch::randint(tokens, {rows, length + 1}, at::kLong);
    auto target = text.slice(1, 1).clone();
    target.slice(0, i % 3, i % 3 + 1).slice(1, 0, 1 + 2 * i).fill_(-100);  // unequal counts
    all.push_back({text.slice(1, 0, length), target});
  }
  return all;
}

/// The model's loss as an objective, changed by `change` if that is set.
struct Changed {
  std::function<void(Loss&)> change = {};
  double more_items = 0;  ///< the items that the count before forward has
  template <class Run>
  Loss operator()(Run& run, Net& model, const Texts& batch) const {
    Loss loss = model->loss(run, batch);
    if (change) change(loss);
    return loss;
  }
  Count count(Net& model, const Texts& batch) const {
    Count items = model->count(batch);
    return items += Count(more_items);
  }
};

/// RAII: algorithms that give the same bits in every run.
class Deterministic {
 public:
  Deterministic() { set(true); }
  ~Deterministic() { set(false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  static void set(bool on) {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
    at::globalContext().setDeterministicCuDNN(on);
  }
};

/// The results of a training: the loss of each step and the final parameters, on the CPU.
struct Trace {
  Tensors losses, parameters;
};

/// Trains, on the model's device. The host reads nothing before all steps are queued.
template <class Trainer, class Batch>
Trace trained(Trainer& trainer, const std::vector<Batch>& batches) {
  torch::manual_seed(11);
  std::vector<Report> reports;
  {
    const NoHostSync none;
    for (const Batch& batch : batches) reports.push_back(trainer.step(batch));
  }
  Trace trace;
  for (const Report& report : reports)
    trace.losses.push_back(report.mean().to(at::kCPU, at::kDouble));
  trainer.with_full_weights([&](auto& model) {
    for (const auto& p : model->parameters()) trace.parameters.push_back(p.detach().cpu().clone());
  });
  return trace;
}
template <class Batch, class... Policies>
Trace trained_on(c10::Device where, Net model, const std::vector<Batch>& batches,
                 Policies... policies) {
  model->to(where);
  Trainer trainer{model, policies...};
  return trained(trainer, batches);
}

inline bool same_bits(const Trace& a, const Trace& b) {
  return test::same_bits(a.losses, b.losses) && test::same_bits(a.parameters, b.parameters);
}

/// The distance of two trainings: losses relative to the largest, parameters relative to their
/// change by training.
struct Apart {
  double losses, parameters;
};
inline Apart apart(const Trace& a, const Trace& b, const Tensors& before) {
  const auto joined = [](const Tensors& all) {
    Tensors flat;
    for (const auto& t : all) flat.push_back(t.detach().to(at::kDouble).flatten());
    return at::cat(flat);
  };
  const at::Tensor x = joined(a.parameters), y = joined(b.parameters);
  return {test::worst_relative(a.losses, b.losses),
          ((x - y).norm() / (y - joined(before)).norm()).item<double>()};
}
inline Tensors parameters_of(const Net& model) {
  Tensors all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().cpu().clone());
  return all;
}

/// Returns all that a rejected step must keep: everything but the number of steps and the
/// generators.
template <class Trainer>
StateDict kept_state(Trainer& trainer) {
  StateDict state = trainer.state();
  std::erase_if(state, [](const auto& item) {
    return test::contains(item.first, "generator") || item.first == "ikebana.trainer.step";
  });
  for (auto& [name, t] : state) t = t.cpu();
  return state;
}

inline void check_near(Apart limit, const Trace& a, const Trace& b) {
  const Apart found = apart(a, b, parameters_of(net()));
  INFO("losses " << found.losses << " apart, parameters " << found.parameters);
  CHECK(found.losses <= limit.losses);
  CHECK(found.parameters <= limit.parameters);
}

/// Checks for a recipe that its losses and weights on the device equal the CPU's up to rounding.
template <class... Policies>
void follows_the_cpu(Apart limit, Policies... policies) {
  const auto batches = texts();
  const Trace there = trained_on(device(), net(), batches, policies...);
  const Trace here = trained_on(at::kCPU, net(), batches, policies...);
  check_near(limit, there, here);
}
/// The bounds for FP32 sums in another order, in which a gradient near 0 may change its sign and
/// Adam's step with it; and for sums of 16 bits. Unrelated trainings are about 1.4 apart.
constexpr Apart rounding{1e-4, 3e-2}, coarse{2e-2, 0.5};

}  // namespace gpu
