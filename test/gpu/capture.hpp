#pragma once
// Defines the models and batches of the cases of Capture<WholeStep> on a device.
#include <ikebana/capture.hpp>

#include "guarantees.hpp"

namespace gpu::capture_cases {

struct Rows {
  at::Tensor input, target;
};

/// A unit that draws random numbers and has statistics.
struct PartImpl : torch::nn::Module {
  torch::nn::Linear linear{12, 12};
  torch::nn::BatchNorm1d norm{12};
  torch::nn::Dropout drop;
  explicit PartImpl(double dropout) : drop(dropout) {
    register_module("linear", linear), register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return drop(at::gelu(norm(linear(x)))); }
};
TORCH_MODULE(Part);

/// Floating-point rows to classes, with or without dropout.
template <int percent>
struct SmallImpl : torch::nn::Module {
  using units = Units<Part>;
  Part first{percent / 100.0}, second{percent / 100.0};
  torch::nn::Linear head{12, 5};
  SmallImpl() {
    register_module("first", first), register_module("second", second);
    register_module("head", head);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return head(run(second, run(first, x)));
  }
};
struct Plain : torch::nn::ModuleHolder<SmallImpl<0>> {
  using torch::nn::ModuleHolder<SmallImpl<0>>::ModuleHolder;
};
struct Random : torch::nn::ModuleHolder<SmallImpl<30>> {
  using torch::nn::ModuleHolder<SmallImpl<30>>::ModuleHolder;
};

inline Rows rows(int step, std::int64_t count = 8) {
  torch::manual_seed(static_cast<std::uint64_t>(40 + step));
  Rows all{torch::randn({count, 12}), torch::randint(5, {count}, at::kLong)};
  all.target[step % 4] = -100;
  return all;
}

template <class Model>
Model made() {
  torch::manual_seed(3);
  Model model;
  model->to(device());
  return model;
}

/// A loss whose count only the device knows.
struct Counted {
  template <class Run, class Model>
  Loss operator()(Run& run, Model& model, const Rows& batch) const {
    const at::Tensor logits = model->forward(run, batch.input);
    return {.sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum, -100),
            .count = (batch.target != -100).sum(),
            .outputs = logits};
  }
};

/// Everything that a step leaves behind.
struct Outcome {
  std::string error;
  Tensors numbers;
  StateDict state;
};
template <class Trainer>
Outcome stepped(Trainer& trainer, const Rows& batch, int i) {
  torch::manual_seed(static_cast<std::uint64_t>(i));
  Outcome all;
  try {
    std::optional<Report> report;
    {
      const NoHostSync none;
      report = trainer.step(batch);
    }
    all.numbers = {report->mean().cpu(), report->outputs.cpu(),
                   at::tensor({report->count(), report->skipped() ? 1.0 : 0.0}, at::kDouble)};
  } catch (const Error& error) {
    all.error = error.what();
  }
  all.state = trainer.state();
  for (auto& [name, t] : all.state) t = t.cpu().clone();
  return all;
}
inline std::string difference(const Outcome& a, const Outcome& b) {
  if (a.error != b.error) return "one error is `" + a.error + "`, the other `" + b.error + "`";
  if (!test::same_bits(a.numbers, b.numbers)) return "the reports differ";
  for (const auto& [name, t] : a.state)
    if (b.state.count(name) == 0 || !test::same_bits(t, b.state.at(name))) return name;
  return a.state.size() == b.state.size() ? "" : "the states have other names";
}

/// A unit whose forward the test supplies.
struct BodyImpl : torch::nn::Module {
  using Function = std::function<at::Tensor(BodyImpl&, const at::Tensor&)>;
  torch::nn::Linear linear{12, 12};
  at::Tensor loose = at::ones({12}, at::TensorOptions(device()));  // is not registered
  Function body;
  int calls = 0;
  explicit BodyImpl(Function f) : body(std::move(f)) { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& x) { return body(*this, x); }
};
TORCH_MODULE(Body);
struct BodyNetImpl : torch::nn::Module {
  using units = Units<Body>;
  Body body;
  torch::nn::Linear head{12, 5};
  explicit BodyNetImpl(BodyImpl::Function f) : body(std::move(f)) {
    register_module("body", body), register_module("head", head);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return head(run(body, x));
  }
};
TORCH_MODULE(BodyNet);

}  // namespace gpu::capture_cases
