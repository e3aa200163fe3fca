// Tests BCEWithLogitsLoss and KLDivLoss. They give PyTorch's mean and batchmean, whatever their
// options and microbatches. A target or weight that does not fit is a clear error.
#include "test.hpp"

#include "compare.hpp"
#include "warnings.hpp"

using namespace ikebana;

namespace test::probabilities {

namespace F = torch::nn::functional;

struct Batch {
  at::Tensor input, target;
};
/// Rows are in dimension 1.
struct Sequences {
  static constexpr int batch_dim = 1;
  at::Tensor input, target;
};
torch::nn::Sequential net(bool log_probabilities = false) {
  torch::nn::Sequential model(linear());
  if (log_probabilities) model->push_back(torch::nn::LogSoftmax(-1));
  return model;
}
auto near(double value) { return doctest::Approx(value).epsilon(1e-6); }

/// Checks a whole batch, one cut in three, one of ragged microbatches, and an evaluation in two
/// parts.
template <class Objective, class Rows>
void check_mean(const Objective& values, const Rows& batch, const at::Tensor& expected) {
  bool log = std::is_same_v<Objective, KLDivLoss>;
  double mean = expected.item<double>();
  auto first = narrow(batch, 0, 1), rest = narrow(batch, 1, rows(batch) - 1);
  CHECK(Trainer(net(log), Objective(values)).step(batch).loss() == near(mean));
  CHECK(Trainer(net(log), Objective(values), Accumulate<3>{}).step(batch).loss() == near(mean));
  CHECK(Trainer(net(log), Objective(values)).step(std::vector{first, rest}).loss() == near(mean));
  Trainer judge{net(log), Objective(values)};
  CHECK(judge.evaluate(std::vector{rest, first}).loss == near(mean));
}

TEST_CASE("objective: BCEWithLogitsLoss is PyTorch's mean, also with weights") {
  Batch batch{random({8, 3}), random({8, 5}, 2).sigmoid()};
  auto weight = at::tensor({1.0f, 2.0f, 0.5f, 3.0f, 1.5f}), of_one = at::full({}, 2.0f);
  for (const auto& w : {at::Tensor(), weight, weight.view({1, 5}), of_one})
    for (const auto& p : {at::Tensor(), weight, of_one}) {
      auto options = F::BinaryCrossEntropyWithLogitsFuncOptions().weight(w).pos_weight(p);
      check_mean(
          BCEWithLogitsLoss{.weight = w, .pos_weight = p}, batch,
          F::binary_cross_entropy_with_logits(net()->forward(batch.input), batch.target, options));
    }
}

TEST_CASE("objective: KLDivLoss is PyTorch's batchmean, of probabilities and of logarithms") {
  auto check = [](auto batch, std::int64_t rows) {
    for (bool log_target : {false, true}) {
      auto part = batch;
      if (!log_target) part.target = batch.target.exp();
      auto sum = F::kl_div(net(true)->forward(part.input), part.target,
                           F::KLDivFuncOptions().reduction(torch::kSum).log_target(log_target));
      check_mean(KLDivLoss{.log_target = log_target}, part, sum / rows);
    }
  };
  check(Batch{random({8, 3}), random({8, 5}, 2).log_softmax(-1)}, 8);
  check(Batch{random({4, 7, 3}), random({4, 7, 5}, 2).log_softmax(-1)}, 4);
  check(Sequences{random({4, 7, 3}), random({4, 7, 5}, 2).log_softmax(-1)}, 7);
}

TEST_CASE("objective: outputs are returned in row order if requested") {
  Batch batch{random({8, 3}), random({8, 5}, 2).softmax(1)};
  auto outputs = [&](auto objective, bool log) {
    return Trainer(net(log), objective, Accumulate<3>{}).step(batch).outputs;
  };
  CHECK_FALSE(outputs(BCEWithLogitsLoss{}, false).defined());
  CHECK(at::allclose(outputs(BCEWithLogitsLoss{.outputs = true}, false),
                     net()->forward(batch.input)));
  CHECK(at::allclose(outputs(KLDivLoss{.outputs = true}, true), net(true)->forward(batch.input)));
}

TEST_CASE("objective: a target that does not fit is a clear error, and nothing is updated") {
  Batch good{random({8, 3}), random({8, 5}, 2).softmax(1)};
  auto wrong = [&](auto objective, at::Tensor target, auto error, const Words& words) {
    Trainer trainer{net(), objective};
    Batch bad{good.input, std::move(target)};
    return undone<decltype(error)>(trainer, good, [&] { trainer.step(bad); }, words);
  };
  BadBatch batch("");
  CHECK(wrong(BCEWithLogitsLoss{}, random({8, 1}), batch,
              {"BCEWithLogitsLoss", "[8, 5]", "[8, 1]", "nothing is broadcast"}) == "");
  CHECK(wrong(KLDivLoss{}, random({8}), batch, {"KLDivLoss", "[8, 5]", "[8]"}) == "");
  CHECK(wrong(BCEWithLogitsLoss{}, at::ones({8, 5}, at::kLong), batch,
              {"the target is Long", ".to(torch::kFloat)"}) == "");
  CHECK(wrong(KLDivLoss{}, at::ones({8, 5}, at::kLong), batch, {"the target is Long"}) == "");
}

TEST_CASE("objective: a weight per row is refused, since microbatches would not cut it") {
  Batch batch{random({5, 3}), random({5, 5}, 2).sigmoid()};
  for (const auto& weight :
       {at::ones({5, 1}), at::ones({5, 5}), at::ones({4}), at::ones({1, 1, 5})})
    for (bool positive : {false, true}) {
      BCEWithLogitsLoss objective;
      (positive ? objective.pos_weight : objective.weight) = weight;
      Trainer trainer{net(), objective};
      const char* name = positive ? "pos_weight has shape" : "weight has shape";
      CHECK(told<BadValue>([&] { trainer.step(batch); },
                           {name, "one per column", "an objective of your own"}) == "");
    }
}

/// Returns the warnings of two steps of a model that ends in `last`.
template <class Last, class Objective>
std::string warned(const Last& last, const Objective& objective, const at::Tensor& target) {
  torch::nn::Sequential model(linear(), last);
  Warnings warnings;
  Trainer trainer{model, objective, SGD{.lr = 0.1}};
  for (int i = 0; i < 2; ++i) trainer.step({random({8, 3}), target});
  return warnings.all.empty() ? "" : std::to_string(warnings.all.size()) + " " + warnings.all[0];
}
TEST_CASE("objective: probabilities given to a loss that takes logits are told of, once") {
  namespace nn = torch::nn;
  const at::Tensor classes = at::arange(8).remainder(5), some = random({8, 5}, 2).softmax(1);
  const nn::Functional none([](const at::Tensor& x) { return x; });
  const nn::Functional viewed([](const at::Tensor& x) {
    return x.softmax(1).unsqueeze(2).to(at::kDouble).squeeze(2).to(at::kFloat);
  });
  auto told_of = [](const std::string& text, const Words& words) {
    for (const char* word : words)
      if (!contains(text, word)) return text + " has no " + word;
    return std::string(text.starts_with("1 ") ? "" : "not one: " + text);
  };
  const Words softmax{"takes logits", "was made by softmax", "without a softmax"};
  CHECK(told_of(warned(nn::Softmax(1), CrossEntropyLoss{}, classes), softmax) == "");
  CHECK(told_of(warned(nn::Softmax(1), CrossEntropyLoss{}, some), softmax) == "");
  CHECK(told_of(warned(viewed, CrossEntropyLoss{}, classes), softmax) == "");
  const Words sigmoid{"takes logits", "was made by sigmoid", "without a sigmoid"};
  CHECK(told_of(warned(nn::Sigmoid(), BCEWithLogitsLoss{}, some), sigmoid) == "");
  CHECK(told_of(warned(nn::LogSigmoid(), BCEWithLogitsLoss{}, some), {"made by logsigmoid"}) == "");
  const Words logs{"takes logarithms of probabilities", "log_softmax of logits"};
  CHECK(told_of(warned(nn::Softmax(1), NLLLoss{}, classes), logs) == "");
  CHECK(told_of(warned(none, NLLLoss{}, classes), {"was made by a linear layer"}) == "");
  CHECK(told_of(warned(nn::Softmax(1), KLDivLoss{}, some), logs) == "");
  auto own = [](auto& run, auto& model, const auto& batch) {
    return Loss{F::cross_entropy(run(model, batch.first), batch.second,
                                 F::CrossEntropyFuncOptions().reduction(torch::kSum)),
                8};
  };
  CHECK(told_of(warned(nn::Softmax(1), own, classes), softmax) == "");

  CHECK(warned(none, CrossEntropyLoss{}, classes) == "");
  CHECK(warned(nn::LogSoftmax(1), CrossEntropyLoss{}, classes) == "");  // changes nothing
  CHECK(warned(none, BCEWithLogitsLoss{}, some) == "");
  CHECK(warned(nn::Sigmoid(), BCELoss{}, some) == "");
  CHECK(warned(nn::LogSoftmax(1), NLLLoss{}, classes) == "");
  CHECK(warned(nn::LogSoftmax(1), KLDivLoss{}, some) == "");
  CHECK(warned(nn::Softmax(1), MSELoss{}, some) == "");
}

TEST_CASE("trainer: a model in evaluation mode trains so, and is told of once") {
  torch::nn::Sequential model(linear(), torch::nn::Dropout(0.5));
  const std::pair batch{random({8, 3}), random({8, 5}, 2)};
  auto warnings_of = [&](auto&& use) {
    Warnings warnings;
    use();
    for (const auto& text : warnings.all)
      CHECK(contains(text, "is in evaluation mode, so it trains without dropout"));
    return warnings.all.size();
  };
  model->eval();
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}};
  CHECK(warnings_of([&] { trainer.fit(std::vector{batch, batch}, {.epochs = 2}); }) == 1);
  CHECK_FALSE(model->is_training());
  CHECK(warnings_of([&] { trainer.step(batch); }) == 0);
  trainer.restore_model();
  model->train();
  Trainer other{model, MSELoss{}, SGD{.lr = 0.1}};
  CHECK(warnings_of([&] {
          model[1]->eval();  // a part of it
          other.step(batch);
          other.evaluate(std::vector{batch});
          other.predict(batch.first);
          other.step(batch);
        }) == 0);
}

}  // namespace test::probabilities
