#pragma once
// Defines the models of the tests of several ranks: units in units, odd sizes, a first dimension of
// 1, fewer rows than ranks, tied and frozen weights, a parameter that the loss does not use.
#include "doubles.hpp"

namespace test::ranks {

struct Rows {
  at::Tensor input, target;
};
/// A fused optimizer computes the elements after the last multiple of eight by other instructions,
/// which may round otherwise. With this width two or three ranks cut longer parameters there.
inline constexpr std::int64_t width = 48;

struct InnerImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(width, width)),
                    still = register_module("still", torch::nn::Linear(width, width));
  at::Tensor scale = register_parameter("scale", at::ones({1, width}));
  at::Tensor unused = register_parameter("unused", at::ones({2, 3}));
  at::Tensor forward(const at::Tensor& x) { return x + still(at::tanh(up(x))) * scale; }
};
TORCH_MODULE(Inner);
struct OuterImpl : torch::nn::Module {
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}));
  Inner inner = register_module("inner", Inner());
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, width));
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return out(run(inner, norm(x))) + x;
  }
};
TORCH_MODULE(Outer);
struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Outer, Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  Outer outer = register_module("outer", Outer());
  Inner first = register_module("first", Inner()), second = register_module("second", Inner());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 3));
  std::function<void()> during_forward = {};
  bool other_order = false;

  template <class Run>
  ikebana::Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = run(other_order ? second : first, run(outer, embed(batch.input)));
    if (during_forward) during_forward();
    const at::Tensor logits = head(run(other_order ? first : second, x));
    return {.sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            .count = batch.target.numel(),
            .outputs = logits};
  }
};
struct LateImpl : NetImpl {};
TORCH_MODULE(Late);
struct CountedImpl : NetImpl {
  ikebana::Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Counted);

/// Two terms with counts of their own.
struct TermsImpl : NetImpl {
  std::string name = "large";
  template <class Run>
  ikebana::Loss loss(Run& run, const Rows& batch) {
    ikebana::Loss loss = NetImpl::loss(run, batch);
    const at::Tensor large = loss.outputs.square().sum();
    loss.terms = {{name, large, loss.outputs.numel(), 0.5}};
    return loss;
  }
  std::vector<ikebana::Count> count(const Rows& batch) const {
    return {batch.target.numel(), batch.target.numel() * 3};
  }
};
TORCH_MODULE(Terms);

/// The device of the cases' models. Cases of a device (test/gpu) set it while no rank runs.
inline c10::Device model_device = at::kCPU;

template <class Model>
Model make() {
  torch::manual_seed(1);
  Model model;
  if (!model_device.is_cpu()) model->to(model_device);
  return model;
}
/// Returns the model's parameters now, as they are shown, on the CPU.
template <class Model>
std::vector<at::Tensor> copies(Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().cpu().clone());
  return all;
}
/// Returns the parameters that a trainer trains, whole, which is a call of all ranks.
template <class Trainer>
std::vector<at::Tensor> whole(Trainer& trainer) {
  return trainer.with_full_weights([](auto& model) { return copies(model); });
}
inline std::vector<Rows> batches(std::int64_t steps, std::int64_t rows) {
  torch::manual_seed(2);
  std::vector<Rows> all;
  for (std::int64_t i = 0; i < steps; ++i)
    all.push_back({at::randn({rows, 5}), at::randint(3, {rows}, at::kLong)});
  return all;
}
inline Rows rows_of(const Rows& all, std::int64_t first, std::int64_t count) {
  return {all.input.narrow(0, first, count), all.target.narrow(0, first, count)};
}
inline Rows part(const Rows& all, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t rows = all.input.size(0) / ranks;
  return rows_of(all, rank * rows, rows);
}

}  // namespace test::ranks
