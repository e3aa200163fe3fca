// Parameters in every form in which a unit may hold them, and gradients that a unit defines itself:
// under every precision and every checkpoint, gradients equal those of a loop by hand, recomputing
// changes no bit, and a saved state continues to the bit.
#include "parameter_forms.hpp"

#include <set>

#include "test.hpp"

namespace guarantees::parameter_forms {

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

/// Losses, gradients and states; `resumed`: another trainer goes on from a state after each step.
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
