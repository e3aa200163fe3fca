#pragma once
// A model whose units hold parameters in every form, or define gradients themselves. Included once,
// since it registers operators.
#include <torch/library.h>

#include "guarantees/recipes/hand.hpp"

namespace guarantees::parameter_forms {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t width = 8, classes = 5, rows = 6;

/// x * sigmoid(slope * x * w), with a derivative of its own; the slope is no tensor.
struct Gate : torch::autograd::Function<Gate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            double slope) {
    context->save_for_backward({x, w});
    context->saved_data["slope"] = slope;
    return x * at::sigmoid(x * w.to(x.scalar_type()) * slope);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double slope = context->saved_data["slope"].toDouble();
    const at::Tensor &x = saved[0], w = saved[1].to(x.scalar_type()), &g = gradients[0];
    const at::Tensor s = at::sigmoid(x * w * slope), inner = g * x * s * (1 - s) * slope;
    return {g * s + inner * w, (inner * x).sum(0), at::Tensor()};
  }
};

// An operator in LibTorch's dispatcher whose derivative is registered beside its kernel, and one
// that is made of LibTorch's own.
inline at::Tensor squash(const at::Tensor& x, const at::Tensor& w) {
  return at::tanh(x * w.to(x.scalar_type()));
}
inline at::Tensor call_squash(const at::Tensor& x, const at::Tensor& w) {
  static const auto squash_operator = c10::Dispatcher::singleton()
                                          .findSchemaOrThrow("parameter_forms::squash", "")
                                          .typed<decltype(squash)>();
  return squash_operator.call(x, w);
}
struct Squash : torch::autograd::Function<Squash> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor y = call_squash(x, w);
    context->save_for_backward({x, w, y});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor inner = gradients[0] * (1 - saved[2] * saved[2]);
    return {inner * saved[1].to(inner.scalar_type()), (inner * saved[0]).sum(0)};
  }
};
inline at::Tensor squash_with_gradient(const at::Tensor& x, const at::Tensor& w) {
  return Squash::apply(x, w);
}
inline at::Tensor mixed(const at::Tensor& x, const at::Tensor& w) {
  return x + at::sin(at::linear(x, w));
}

TORCH_LIBRARY(parameter_forms, m) {
  m.def("squash(Tensor x, Tensor w) -> Tensor");
  m.impl("squash", torch::dispatch(c10::DispatchKey::CPU, squash));
  m.impl("squash", torch::dispatch(c10::DispatchKey::Autograd, squash_with_gradient));
  m.def("mixed(Tensor x, Tensor w) -> Tensor", mixed);
}
inline at::Tensor call_mixed(const at::Tensor& x, const at::Tensor& w) {
  static const auto mixed_operator = c10::Dispatcher::singleton()
                                         .findSchemaOrThrow("parameter_forms::mixed", "")
                                         .typed<decltype(mixed)>();
  return mixed_operator.call(x, w);
}

enum class Form { List, Dict, WeightNorm, WeightNormOperator, Tied, Function, Operator, count };

/// Its parameters are in a ParameterList, in a ParameterDict, or its own.
struct PartImpl : torch::nn::Module {
  Form form;
  torch::nn::ParameterList list;
  torch::nn::ParameterDict dict;
  at::Tensor weight, scale;

  explicit PartImpl(Form f, const at::Tensor& tied = {}) : form(f) {
    const auto made = [](at::IntArrayRef sizes) {
      return (at::randn(sizes) * 0.3).set_requires_grad(true);
    };
    if (form == Form::List) {
      for (auto sizes : {std::vector{width, width}, {width}, {width, width}})
        list->append(made(sizes));
      register_module("list", list);
    } else if (form == Form::Dict) {
      dict->insert("weight", made({width, width})), dict->insert("bias", made({width}));
      register_module("dict", dict);
    } else {
      weight = register_parameter("weight", tied.defined() ? tied : made({width, width}));
      if (form == Form::WeightNorm || form == Form::WeightNormOperator)
        scale = register_parameter("scale", made({width, 1}));
      else if (form != Form::Tied) scale = register_parameter("scale", made({width}));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    switch (form) {
      case Form::List:
        return x + at::linear(at::tanh(at::linear(x, list[0], list[1])), list[2]);
      case Form::Dict:
        return x + at::gelu(at::linear(x, dict["weight"], dict["bias"]));
      case Form::WeightNorm:
        return x + at::tanh(at::linear(x, weight * (scale / weight.norm(2, 1, true))));
      case Form::WeightNormOperator:
        return x + at::tanh(at::linear(x, at::_weight_norm(weight, scale, 0)));
      case Form::Function:
        return Gate::apply(at::linear(x, weight), scale, 1.5);
      case Form::Operator:
        return call_squash(call_mixed(x, weight), scale);
      default:
        return x + at::tanh(at::linear(x, weight));
    }
  }
};
TORCH_MODULE(Part);

struct FormsImpl : torch::nn::Module {
  using units = Units<Part>;
  Form form;
  std::vector<Part> parts;
  torch::nn::Linear head{width, classes};
  explicit FormsImpl(Form f) : form(f) {
    for (int i = 0; i < 3; ++i) {
      const bool ties = form == Form::Tied && i > 0;
      parts.push_back(Part(form, ties ? parts[0]->weight : at::Tensor()));
      register_module("part" + std::to_string(i), parts.back());
    }
    register_module("head", head);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = batch.input;
    for (Part& part : parts) x = run(part, x);
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Forms);

}  // namespace guarantees::parameter_forms
