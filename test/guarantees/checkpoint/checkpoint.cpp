// Tests that a checkpoint policy changes no bit of a loss, a gradient, a buffer, or the random
// numbers drawn after it.
#include "test.hpp"

#include "guarantees/zoo.hpp"

namespace guarantees::checkpoint {

template <class F>
void each_kind(F&& f) {
  for (int k = 0; k < static_cast<int>(Kind::count); ++k) {
    INFO("model: " << name_of(static_cast<Kind>(k)));
    f(static_cast<Kind>(k));
  }
}

/// Plain gradient descent keeps every difference: another gradient gives other parameters.
template <class Model, class... Words, class... Values>
Trace steps_of(Kind kind, Values... values) {
  auto model = seeded([&] { return Model(kind); });
  return trained(Trainer<Model, SGD, Words...>(model, SGD{.lr = 0.05, .momentum = 0.5}, values...),
                 class_batches(3, 6, width, classes));
}

torch::nn::Sequential stack() {
  return seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(width, 20), torch::nn::BatchNorm1d(20),
                                 torch::nn::Dropout(0.3), torch::nn::GELU(),
                                 torch::nn::Linear(20, classes));
  });
}

struct WholeImpl : torch::nn::Module {
  Block block;
  torch::nn::Linear head{width, classes};
  WholeImpl() { register_module("block", block), register_module("head", head); }
  at::Tensor forward(at::Tensor x) { return head(block(x)); }
};
TORCH_MODULE(Whole);

template <class Word, class Model>
Trace by_objective(Model model) {
  return trained(Trainer<Model, SGD, CrossEntropyLoss, Word>(model, SGD{.lr = 0.05}),
                 class_batches(3, 6, width, classes));
}

TEST_CASE("checkpoint changes no bit in any precision, whatever a unit does") {
  Precisions::each([]<class Number>(const std::string& number) {
    Checkpoints::each([&]<class Word>(const std::string& word) {
      each_kind([&](Kind kind) {
        INFO(word << " in " << number);
        auto without = steps_of<Zoo, Checkpoint<Off>, Number>(kind);
        CHECK(moved(without, 3));
        CHECK(test::same_bits(steps_of<Zoo, Word, Number>(kind), without));
      });
    });
  });
}

TEST_CASE("a run whose type is erased computes the same bits") {
  Choices<Checkpoint<Off>, Checkpoint<Full>>::each([]<class Word>(const std::string& word) {
    each_kind([&](Kind kind) {
      INFO(word);
      CHECK(test::same_bits(steps_of<ErasedZoo, Word>(kind), steps_of<Zoo, Word>(kind)));
    });
  });
}

TEST_CASE("checkpoint changes no bit of a Sequential and of a whole model as one unit") {
  Checkpoints::each([]<class Word>(const std::string& word) {
    INFO(word);
    auto children = by_objective<Checkpoint<Off>>(stack());
    CHECK(moved(children, 3));
    CHECK(test::same_bits(by_objective<Word>(stack()), children));
    auto whole = [] { return seeded([] { return Whole(); }); };
    auto one = by_objective<Checkpoint<Off>>(whole());
    CHECK(moved(one, 3));
    CHECK(test::same_bits(by_objective<Word>(whole()), one));
  });
}

}  // namespace guarantees::checkpoint
