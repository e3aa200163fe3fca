// Checkpoint<Selective>: kept outputs are not recomputed, all others are, and no bit changes,
// whatever a unit does with a kept output.
#include "test.hpp"

#include "counting.hpp"
#include "guarantees/zoo.hpp"
#include "writings.hpp"

namespace guarantees::selective {

using test::Counting, test::Counts;

/// Counts how often a step calls each operator.
template <class Word, class Number>
Counts operators_of(Kind kind, Word word = {}) {
  auto model = seeded([&] { return Zoo(kind); });
  Trainer<Zoo, SGD, Word, Number> trainer(model, word);
  auto batch = class_batches(1, 6, width, classes)[0];
  Counting counting;
  bridge::OperatorScope scope(counting);
  trainer.step(batch);
  return counting.seen;
}

/// Returns losses and parameters of three steps of a model of two units that do the same.
Trace trained_by(auto word, const Body& body, const BenchImpl::After& after = no_after) {
  using Word = decltype(word);
  Trainer<Bench, SGD, Word> trainer(bench({Work(body), Work(body)}, after), SGD{.lr = 0.05}, word);
  return three_steps_of(trainer);
}
template <class How>
void same_bits_by(const Checkpoint<How>& word, const std::string& name, const Body& body,
                  const BenchImpl::After& after = no_after) {
  INFO(name);
  auto without = trained_by(Checkpoint<Off>{}, body, after);
  CHECK(moved(without, 3));
  CHECK(test::same_bits(trained_by(word, body, after), without));
}

const OperatorRule everything = [](const auto&) { return true; };
const OperatorRule nothing = [](const auto&) { return false; };

TEST_CASE("selective: products are computed once, and all other operators twice") {
  Precisions::each([]<class Number>(const std::string& number) {
    for (Kind kind : {Kind::Chain, Kind::Twice, Kind::Nested, Kind::Values}) {
      INFO(number << ' ' << name_of(kind));
      auto none = operators_of<Checkpoint<Off>, Number>(kind);
      auto full = operators_of<Checkpoint<Full>, Number>(kind);
      auto selective = operators_of<Checkpoint<Selective>, Number>(kind);
      for (const char* product : {"aten::mm", "aten::addmm"}) {
        CHECK(selective[product] == none[product]);
        CHECK(full[product] >= none[product]);
      }
      CHECK(full["aten::addmm"] > none["aten::addmm"]);
      for (const char* other : {"aten::gelu", "aten::native_batch_norm", "aten::sigmoid"})
        CHECK(selective[other] == full[other]);
    }
  });
}

TEST_CASE("selective: no form of attention is recomputed") {
  using Form = modules::AttentionForm;
  const std::pair<Form, const char*> forms[] = {
      {Form::Fused, "aten::_scaled_dot_product_flash_attention_for_cpu"},
      {Form::Composed, "ikebana::composed_attention"},
      {Form::Chunked, "ikebana::chunked_attention"}};
  for (const auto& [form, name] : forms) {
    INFO(name);
    auto calls = [&]<class Word>(Word word) {
      Body body = [form](auto& w, auto x) {
        auto q = (x * w.weight).view({1, 1, 5, 4});
        return modules::attention(q, q.sin(), q.cos(), {.form = form}).view({5, 4}).tanh();
      };
      Trainer<Bench, SGD, Word> trainer(bench({Work(body)}), word);
      Counting counting;
      bridge::OperatorScope scope(counting);
      trainer.step(some_rows(5));
      return counting.seen[name];
    };
    CHECK(calls(Checkpoint<Off>{}) == 1);
    CHECK(calls(Checkpoint<Selective>{}) == 1);
    CHECK(calls(Checkpoint<Selective>{.keep = operators({name})}) == 1);
    CHECK(calls(Checkpoint<Selective>{.keep = nothing}) == 2);
    CHECK(calls(Checkpoint<Full>{}) == 2);
  }
}

TEST_CASE("selective: writes into a kept output change no bit") {
  auto check = [](const Writing& what) {
    same_bits_by(Checkpoint<Selective>{}, what.name, what.body, what.after);
    same_bits_by(Checkpoint<Selective>{.keep = everything}, what.name + ", everything kept",
                 what.body, what.after);
    same_bits_by(Checkpoint<Selective>{.keep = nothing}, what.name + ", nothing kept", what.body,
                 what.after);
  };
  for (const auto& what : writings) check(what);
  for (const auto& what : writings_with_others) check(what);
}

TEST_CASE("selective: a retained graph recomputes from the same kept outputs") {
  auto twice = [](WorkImpl&, at::Tensor& x, at::Tensor& y) {
    auto once = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
    auto again = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    y = y + once.sin() * x + again.cos();
  };
  auto check = [&](const Writing& what) {
    same_bits_by(Checkpoint<Selective>{}, what.name, what.body, twice);
    same_bits_by(Checkpoint<Selective>{.keep = everything}, what.name + ", everything kept",
                 what.body, twice);
  };
  for (const auto& what : writings) check(what);
  for (const auto& what : writings_with_others) check(what);
}

TEST_CASE("selective: attention, convolutions and random numbers after them have the same bits") {
  auto check = [](const Writing& what) {
    same_bits_by(Checkpoint<Full>{}, what.name + ", by Full", what.body);
    same_bits_by(Checkpoint<Selective>{}, what.name, what.body);
    same_bits_by(Checkpoint<Selective>{.keep = everything}, what.name + ", everything kept",
                 what.body);
    same_bits_by(Checkpoint<Selective>{.keep = operators({"aten::native_dropout", "aten::bernoulli",
                                                          "aten::tanh"})},
                 what.name + ", random numbers kept", what.body);
  };
  for (const auto& what : heavy) check(what);
  for (const auto& what : drawing) check(what);
}

TEST_CASE("selective: kept operators that draw nothing leave the generator as it is") {
  auto draws_after = [](WorkImpl&, at::Tensor&, at::Tensor& x) { x = at::dropout(x, 0.3, true); };
  const std::vector<Writing> silent = {
      {"attention without dropout",
       [](auto& w, auto x) {
         const at::Tensor q = (x * w.weight).view({1, 1, 5, 4});
         return at::scaled_dot_product_attention(q, q.sin(), q.cos()).view({5, 4}).tanh();
       }},
      {"rrelu of positive numbers",
       [](auto& w, auto x) { return at::rrelu(at::exp(x * w.weight), 0.1, 0.3, true).sin(); }},
      {"bernoulli from a generator of its own",
       [](auto& w, auto x) {
         auto own = at::make_generator<at::CPUGeneratorImpl>(5);
         return at::tanh(x * w.weight) * at::bernoulli(at::sigmoid(x).detach(), own);
       }},
  };
  for (const Writing& what : silent) {
    same_bits_by(Checkpoint<Selective>{}, what.name, what.body, draws_after);
    same_bits_by(Checkpoint<Selective>{.keep = everything}, what.name + ", everything kept",
                 what.body, draws_after);
  }
}

TEST_CASE("a recompute ends with the operator that draws, if autograd saves nothing after it") {
  auto operators = [](auto word) {
    Body body = [](auto& w, auto x) {
      return at::sub(at::rrelu(at::mm(x, square(w)), 0.1, 0.3, true), 1);
    };
    Trainer<Bench, SGD, decltype(word)> trainer(bench({Work(body)}), word);
    Counting counting;
    bridge::OperatorScope scope(counting);
    trainer.step(some_rows(4));
    return counting.seen;
  };
  auto none = operators(Checkpoint<Off>{}), full = operators(Checkpoint<Full>{});
  CHECK(none["aten::rrelu_with_noise"] == 1);
  CHECK(full["aten::rrelu_with_noise"] == 2);
  CHECK(none["aten::sub"] > 0);
  CHECK(full["aten::sub"] == none["aten::sub"]);
}

TEST_CASE("selective: any rule keeps the bits, in every precision and model") {
  Precisions::each([]<class Number>(const std::string& number) {
    for (int k = 0; k < static_cast<int>(Kind::count); ++k) {
      auto kind = static_cast<Kind>(k);
      INFO(number << ' ' << name_of(kind));
      auto train = [&](auto word) {
        using Word = decltype(word);
        auto model = seeded([&] { return Zoo(kind); });
        return trained(Trainer<Zoo, SGD, Number, Word>(model, SGD{.lr = 0.05}, word),
                       class_batches(3, 6, width, classes));
      };
      auto without = train(Checkpoint<Off>{});
      CHECK(test::same_bits(train(Checkpoint<Selective>{.keep = everything}), without));
      CHECK(test::same_bits(train(Checkpoint<Selective>{.keep = nothing}), without));
      CHECK(test::same_bits(train(Checkpoint<Selective>{.keep = operators({"aten::gelu"})}),
                            without));
    }
  });
}

TEST_CASE("selective: a rule by name keeps the named operators and no others") {
  auto by_rule = [](std::vector<std::string> names) {
    return operators_of<Checkpoint<Selective>, Precision<FP32>>(
        Kind::Chain, {.keep = operators(std::move(names))});
  };
  auto none = operators_of<Checkpoint<Off>, Precision<FP32>>(Kind::Chain);
  auto full = operators_of<Checkpoint<Full>, Precision<FP32>>(Kind::Chain);
  auto gelu = by_rule({"aten::gelu"});
  CHECK(gelu["aten::gelu"] == none["aten::gelu"]);
  CHECK(gelu["aten::native_batch_norm"] == full["aten::native_batch_norm"]);
  CHECK(gelu["aten::native_batch_norm"] > none["aten::native_batch_norm"]);
}

TEST_CASE("selective: invalid rules are clear errors") {
  CHECK(test::contains(test::message_of<BadValue>([] { operators({"aten::mm", "mm"}); }),
                       "no operator `mm`. Write the name"));
  CHECK(test::contains(test::message_of<BadValue>([] { operators({"aten::_to_copy"}); }),
                       "always computed again"));
  CHECK(test::contains(test::message_of<BadValue>([] {
                         Trainer<Zoo, Checkpoint<Selective>>(Zoo(Kind::Chain),
                                                             Checkpoint<Selective>{.keep = {}});
                       }),
                       "keep is empty"));
}

TEST_CASE("selective: a recompute with other shapes is an error that names the operator") {
  Body body = [](WorkImpl& w, at::Tensor x) {
    if (w.begun > 1) x = x.narrow(0, 0, 2);
    return at::tanh(at::mm(x, square(w)));
  };
  Trainer<Bench, SGD, Checkpoint<Selective>> trainer(bench({Work(body)}));
  auto text = test::message_of<BadRecompute>([&] { trainer.step(some_rows()); });
  CHECK(test::contains(text, "`work0`"));
}

}  // namespace guarantees::selective
