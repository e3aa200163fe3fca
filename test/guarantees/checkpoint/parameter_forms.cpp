// Tests parameters in every form in which a unit may hold them, and gradients that a unit defines
// itself. Under every precision and every checkpoint, gradients equal the gradients of a loop by
// hand, recomputing changes no bit, and a saved state continues to the bit.
#include "test.hpp"

#include <torch/library.h>
#include <set>

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

// Calls an operator in LibTorch's dispatcher whose derivative is registered beside its kernel, and
// one that is made of LibTorch's own.
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

/// Copies the true gradients of each step.
struct Record {
  using axis = ikebana::axis::clip;
  std::vector<Tensors>* into = nullptr;
};

}  // namespace guarantees::parameter_forms

template <>
struct ikebana::Mechanism<guarantees::parameter_forms::Record> : ikebana::ClipHooks {
  guarantees::parameter_forms::Record values;
  explicit Mechanism(guarantees::parameter_forms::Record v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    values.into->emplace_back();
    for (const at::Tensor& g : gradients.values) values.into->back().push_back(g.clone());
  }
};

namespace guarantees::parameter_forms {

template <class F>
void each_form(F&& f) {
  static const char* const names[] = {"ParameterList",        "ParameterDict",
                                      "weight norm",          "weight norm by its operator",
                                      "tied over units",      "an autograd::Function",
                                      "a registered operator"};
  for (int i = 0; i < static_cast<int>(Form::count); ++i) {
    INFO(std::string(names[i]));
    f(static_cast<Form>(i));
  }
}
Forms made(Form form) {
  return seeded([&] { return Forms(form); });
}
std::vector<Rows> batches() { return class_batches(3, rows, width, classes); }

template <class Number>
Number of_precision() {
  if constexpr (std::is_same_v<Number, Precision<FP16>>) return {.init_scale = 256};
  else return {};
}
template <class Word, class Number>
auto trainer_of(Form form, std::vector<Tensors>& gradients) {
  return Trainer<Forms, SGD, Number, Word, Record>(made(form), SGD{.lr = 0.05, .momentum = 0.5},
                                                   of_precision<Number>(), Record{&gradients});
}
void append(Trace& trace, const StateDict& state) {
  for (const auto& [name, t] : state) trace.push_back(t);
}

/// Returns losses, gradients and states. `resumed`: another trainer continues from a state after
/// each step.
template <class Word, class Number>
Trace trained_as(Form form, bool resumed = false) {
  const auto data = batches();
  std::vector<Tensors> gradients;
  torch::manual_seed(11);
  Trace trace;
  auto first = trainer_of<Word, Number>(form, gradients);
  StateDict state = first.state();
  for (const Rows& batch : data) {
    if (resumed) {
      auto next = trainer_of<Word, Number>(form, gradients);
      next.restore(state);
      trace.push_back(next.step(batch).mean());
      state = next.state();
    } else {
      trace.push_back(first.step(batch).mean());
      state = first.state();
    }
    append(trace, state);
  }
  for (const Tensors& step : gradients) trace.insert(trace.end(), step.begin(), step.end());
  return trace;
}

/// The hand's own copy of the model, which computes the gradients of one batch.
struct ByHand {
  Forms model;
  at::ScalarType autocast;
  double scale;

  /// The values of a trainer's state; in BF16 if they are matrices and `narrow` is set.
  ByHand(Form form, const StateDict& state, at::ScalarType type, bool narrow, double by)
      : model(made(form)), autocast(type), scale(by) {
    const at::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      at::Tensor& p = item.value();
      if (const auto found = state.find(item.key()); found != state.end()) p.copy_(found->second);
      if (narrow && p.dim() >= 2) p.set_data(p.to(at::kBFloat16));
    }
  }
  Tensors gradients(const Rows& batch) {
    at::Tensor loss;
    hand::Products products(autocast);
    {
      hand::Autocast cast(autocast);
      loss = model->loss(plain, batch).sum.div(static_cast<double>(rows));
    }
    (loss * scale).backward();
    Tensors all, of_units;  // a trainer lists units' parameters last, and shared ones with no unit
    std::set<const void*> seen;
    for (const auto& item : model->named_parameters()) {
      const at::Tensor& p = item.value();
      const bool in_unit = model->form != Form::Tied && item.key().starts_with("part");
      if (seen.insert(p.unsafeGetTensorImpl()).second)
        (in_unit ? of_units : all).push_back(p.grad().to(at::kFloat) / scale);
    }
    all.insert(all.end(), of_units.begin(), of_units.end());
    return all;
  }
};

template <class Number>
void equals_by_hand(Form form) {
  constexpr bool half = std::is_same_v<Number, Precision<FP16>>;
  constexpr bool narrow = std::is_same_v<Number, Precision<BF16Weights>>;
  constexpr bool whole = std::is_same_v<Number, Precision<FP32>>;
  std::vector<Tensors> gradients;
  auto trainer = trainer_of<Checkpoint<Off>, Number>(form, gradients);
  for (const Rows& batch : batches()) {
    ByHand hand(form, trainer.state(),
                half    ? at::kHalf
                : whole ? at::kFloat
                        : at::kBFloat16,
                narrow, half ? 256 : 1);
    trainer.step(batch);
    CHECK(test::same_bits(gradients.back(), hand.gradients(batch)));
  }
}

TEST_CASE("parameters in every form have the gradients of the loop written by hand") {
  Choices<Precision<FP32>, Precision<BF16>, Precision<FP16>, Precision<BF16Weights>>::each(
      []<class Number>(const std::string& number) {
        INFO(number);
        each_form([](Form form) { equals_by_hand<Number>(form); });
      });
}

TEST_CASE("parameters in every form are recomputed and resumed to the bit in every precision") {
  using Numbers = Choices<Precision<FP32>, Precision<BF16>, Precision<FP16>, Precision<BF16Weights>,
                          Precision<BF16True>, Precision<FP8>>;
  using Words = Choices<Checkpoint<Full>, Checkpoint<Selective>, Checkpoint<Every<2>>,
                        Checkpoint<Segments<2>>>;
  Numbers::each([]<class Number>(const std::string& number) {
    std::vector<Trace> without;
    each_form([&](Form form) {
      without.push_back(trained_as<Checkpoint<Off>, Number>(form));
      CHECK_FALSE(test::same_bits(without.back()[0], without.back()[1]));
      CHECK(test::same_bits(trained_as<Checkpoint<Off>, Number>(form, true), without.back()));
    });
    Words::each([&]<class Word>(const std::string& word) {
      INFO(word << " in " << number);
      each_form([&](Form form) {
        const Trace& expected = without[static_cast<std::size_t>(form)];
        CHECK(test::same_bits(trained_as<Word, Number>(form), expected));
        CHECK(test::same_bits(trained_as<Word, Number>(form, true), expected));
      });
    });
  });
}

}  // namespace guarantees::parameter_forms
