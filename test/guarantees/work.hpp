#pragma once
// A unit whose body the test supplies, a model around it, and what may and may not be changed in
// place.
#include "guarantees.hpp"

namespace guarantees {

/// A unit whose body the test supplies.
struct WorkImpl : torch::nn::Module {
  using Body = std::function<at::Tensor(WorkImpl&, at::Tensor)>;
  at::Tensor weight = register_parameter("weight", torch::full({4}, 0.5));
  at::Tensor buffer = register_buffer("buffer", torch::full({4}, 0.25));
  Body body;
  int begun = 0, ended = 0;
  explicit WorkImpl(Body b) : body(std::move(b)) {}
  at::Tensor forward(at::Tensor x) {
    ++begun;
    at::Tensor y = body(*this, x);
    ++ended;
    return y;
  }
};
TORCH_MODULE(Work);

struct AroundImpl : torch::nn::Module {
  Work work;
  explicit AroundImpl(Work w) : work(std::move(w)) { register_module("work", work); }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    return run(work, at::sin(x)) * 2;
  }
};
TORCH_MODULE(Around);

struct BenchImpl : torch::nn::Module {
  using units = Units<Work, Around>;
  using After = std::function<void(WorkImpl&, at::Tensor&, at::Tensor&)>;
  at::Tensor scale = register_parameter("scale", torch::full({4}, 1.5));
  std::vector<Work> works;
  Around around{nullptr};
  bool nested;
  After after;
  BenchImpl(std::vector<Work> w, After a = {}, bool nests = false)
      : works(std::move(w)), nested(nests), after(std::move(a)) {
    if (nested) around = register_module("around", Around(works[0]));
    else
      for (std::size_t i = 0; i < works.size(); ++i)
        register_module("work" + std::to_string(i), works[i]);
  }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& input) {
    at::Tensor x = input * scale, first = x;
    if (nested) x = run(around, x);
    else
      for (auto& work : works) x = run(work, x);
    if (after) after(*works[0], first, x);
    return {(x * x).sum(), x.numel()};
  }
};
TORCH_MODULE(Bench);

inline Bench bench(std::vector<Work> works, BenchImpl::After after = {}, bool nested = false) {
  return Bench(std::move(works), std::move(after), nested);
}
inline at::Tensor some_rows(std::int64_t n = 3) {
  return torch::linspace(-1, 1, 4 * n).view({n, 4});
}
/// Makes three steps of five rows, and returns losses, parameters and the next random numbers.
template <class T>
Trace three_steps_of(T& trainer) {
  torch::manual_seed(2);
  Trace trace;
  for (int i = 0; i < 3; ++i) trace.push_back(trainer.step(some_rows(5)).mean());
  for (auto& p : parameters_of(trainer.model())) trace.push_back(p);
  trace.push_back(torch::rand({4}));
  return trace;
}

/// A function whose backward changes a tensor that it saved.
struct Spoil : torch::autograd::Function<Spoil> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    context->get_saved_variables()[0].detach().add_(1);
    return {gradients[0] * 2};
  }
};

struct Meddling {
  std::string name;
  WorkImpl::Body body;
  BenchImpl::After after;
};
inline void no_after(WorkImpl&, at::Tensor&, at::Tensor&) {}
inline void change(at::Tensor t) {
  torch::NoGradGuard no_grad;
  t.add_(1);
}

inline const Meddling forbidden[] = {
    {"input", [](auto& w, auto x) { return x * x * w.weight; },
     [](auto&, auto& x, auto&) { x.add_(1); }},
    {"view of the input", [](auto& w, auto x) { return x * x * w.weight; },
     [](auto&, auto& x, auto&) { x.narrow(0, 0, 1).add_(1); }},
    {"output", [](auto& w, auto x) { return at::exp(x * w.weight); },
     [](auto&, auto&, auto& y) { y.add_(1); }},
    {"parameter", [](auto& w, auto x) { return x * w.weight; },
     [](auto& w, auto&, auto&) { change(w.weight); }},
    {"buffer", [](auto& w, auto x) { return x * w.weight * w.buffer; },
     [](auto& w, auto&, auto&) { change(w.buffer); }},
    {"intermediate, others saved after it",
     [](auto& w, auto x) {
       auto y = at::exp(x * w.weight);
       y.add_(1);
       return at::tanh(y * w.weight);
     },
     no_after},
    {"intermediate, by another node's backward",
     [](auto& w, auto x) {
       auto y = x * w.weight, z = at::sin(y);  // backward runs the later node first
       return z + Spoil::apply(y);
     },
     no_after},
    {"intermediate, the last that is saved",
     [](auto& w, auto x) {
       auto y = at::exp(x * w.weight), z = y + 1;
       y.add_(1);
       return z;
     },
     no_after},
};

inline const Meddling allowed[] = {
    {"nothing", [](auto& w, auto x) { return at::tanh(x * w.weight); }, no_after},
    {"before it is saved",
     [](auto& w, auto x) {
       auto y = x * w.weight;
       return at::tanh(y.add_(1).relu_());
     },
     no_after},
    {"what nobody saved", [](auto& w, auto x) { return x + w.weight; },
     [](auto&, auto&, auto& y) { y.add_(1); }},
    {"a buffer before it is used",
     [](auto& w, auto x) { return change(w.buffer), at::tanh(x * w.buffer + w.weight); }, no_after},
    {"a buffer that is used before batch norm writes it, which no version counts",
     [](auto& w, auto x) {
       auto y = at::tanh(x * w.weight - w.buffer);
       auto variance = torch::ones({4});
       at::native_batch_norm(x.detach(), {}, {}, w.buffer, variance, true, 0.5, 1e-5);
       return y;
     },
     no_after},
    {"a gradient taken twice", [](auto& w, auto x) { return at::tanh(at::sin(x) * w.weight); },
     [](auto&, auto& x, auto& y) {
       auto once = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
       auto twice = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
       y = y + once * x + twice * twice;
     }},
};

// These are valid without a recompute and impossible with one, which would compute with other
// values.
inline const Meddling lost[] = {
    {"an input that backward does not need", [](auto& w, auto x) { return at::tanh(x + w.weight); },
     [](auto&, auto& x, auto&) { x.add_(1); }},
    {"a parameter that backward does not need",
     [](auto& w, auto x) { return at::tanh(x + w.weight); },
     [](auto& w, auto&, auto&) { change(w.weight); }},
    {"a buffer that backward does not need",
     [](auto& w, auto x) { return at::tanh(x * w.weight + w.buffer); },
     [](auto& w, auto&, auto&) { change(w.buffer); }},
};

}  // namespace guarantees
