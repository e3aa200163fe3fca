// An update from N microbatches equals the update from one big batch, whatever their sizes.
#include "test.hpp"

#include "guarantees/guarantees.hpp"

namespace guarantees::accumulate {

constexpr std::int64_t width = 6, classes = 4, steps = 3;

torch::nn::Sequential net() {
  return seeded([] {
    torch::nn::Sequential made(torch::nn::Linear(width, 8), torch::nn::Tanh(),
                               torch::nn::Linear(8, classes));
    made->to(at::kDouble);
    return made;
  });
}

/// This objective has no `count`: its counts are known only after the last forward. They alternate
/// between numbers on the host and tensors.
struct Late {
  CrossEntropyLoss options;
  int calls = 0;
  template <class Run>
  Loss operator()(Run& run, torch::nn::Sequential& model, const Rows& batch) {
    Mechanism<CrossEntropyLoss> objective(options);
    Loss loss = objective.loss(run, model, batch);
    if (++calls % 2) loss.count = loss.count.value();
    return loss;
  }
};

struct Targets {
  std::string name;
  CrossEntropyLoss options;
  std::function<void(Rows&)> mask = [](Rows&) {};
};
void hide(Rows& batch, std::int64_t begin, std::int64_t rows) {
  if (begin < batch.target.size(0))
    batch.target.narrow(0, begin, std::min(rows, batch.target.size(0) - begin)).fill_(-100);
}
std::vector<Targets> targets() {
  auto weight = torch::tensor({0.3, 1.7, 0.9, 2.2}, at::kDouble);
  return {{"plain", {}},
          {"most of the first microbatch masked", {}, [](Rows& b) { hide(b, 0, 3); }},
          {"a whole microbatch masked", {}, [](Rows& b) { hide(b, 4, 7); }},
          {"smoothed", {.label_smoothing = 0.1}, [](Rows& b) { hide(b, 1, 2); }},
          {"weighted", {.label_smoothing = 0.2, .weight = weight}, [](Rows& b) { hide(b, 1, 2); }},
          {"another ignore_index", {.ignore_index = 2}},
          {"probabilities", {}, [](Rows& b) {
             b.target = torch::softmax(torch::randn({b.input.size(0), classes}, at::kDouble), 1);
           }}};
}

std::vector<Rows> batches_of(const Targets& what, std::int64_t rows) {
  auto batches = class_batches(steps, rows, width, classes, at::kDouble);
  for (auto& batch : batches) {
    batch.target[-1] = 0;  // one item counts, even when all others are masked
    what.mask(batch);
  }
  return batches;
}

/// Trains with one big batch and PyTorch's own mean.
Tensors by_hand(const std::vector<Rows>& batches, const CrossEntropyLoss& o, double& loss) {
  auto model = net();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  for (const auto& batch : batches) {
    optimizer.zero_grad();
    auto mean = at::cross_entropy_loss(model->forward(batch.input), batch.target, o.weight,
                                       at::Reduction::Mean, o.ignore_index, o.label_smoothing);
    mean.backward();
    optimizer.step();
    loss = mean.item<double>();
  }
  return parameters_of(model);
}

constexpr SGD sgd() { return {.lr = 0.2, .momentum = 0.9}; }

template <class Word, class Objective>
void equals_one_batch(Word word, std::int64_t n, const Targets& what, Objective objective,
                      double bound) {
  for (std::int64_t rows : {13, 8, 3, 1}) {
    CAPTURE(rows);
    if (rows < 8 && what.name.find("masked") != std::string::npos) continue;
    auto batches = batches_of(what, rows);
    auto counted = [&](const Rows& b) {
      Mechanism<CrossEntropyLoss> counting(what.options);
      int none = 0;
      return counting.count(none, b).value();
    };
    double loss = 0;
    auto reference = by_hand(batches, what.options, loss);
    Trainer<torch::nn::Sequential, SGD, Objective, Word> trainer(net(), sgd(), objective, word);
    Report report;
    for (const auto& batch : batches) report = trainer.step(batch);
    CHECK(test::worst_relative(parameters_of(trainer.model()), reference) <= bound);
    CHECK(report.loss() == doctest::Approx(loss).epsilon(bound + 1e-15));
    CHECK(report.count() == doctest::Approx(counted(batches.back())).epsilon(1e-12));
    CHECK(report.microbatches == std::min(n, rows));
  }
}

/// Two terms, one of which does not see every row.
struct TermsImpl : torch::nn::Module {
  torch::nn::Linear linear{width, 1};
  bool unequal = true;
  double told = 0;  // added to the count, which makes it wrong
  TermsImpl() { register_module("linear", linear), to(at::kDouble); }
  static at::Tensor chosen(const Rows& b) { return (b.target > 1).to(at::kDouble); }

  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor y = linear(batch.input).squeeze(1), kept = chosen(batch);
    Count rows = y.numel(), some = unequal ? Count(kept.sum()) : rows;
    return {.terms = {{"fit", (y - 1).pow(2).sum(), rows, 2.0},
                      {"size", (y.abs() * kept).sum(), some, 0.25}}};
  }
  std::vector<Count> counts(const Rows& b) const {
    return {b.input.size(0) + told, unequal ? Count(chosen(b).sum()) : Count(b.input.size(0))};
  }
  at::Tensor expected(const Rows& b) {
    at::Tensor y = linear(b.input).squeeze(1), kept = chosen(b);
    return 2.0 * (y - 1).pow(2).mean() +
           0.25 * (y.abs() * kept).sum() /
               (unequal ? kept.sum() : torch::tensor(double(y.numel())));
  }
};
TORCH_MODULE(Terms);
struct EarlyTermsImpl : TermsImpl {
  std::vector<Count> count(const Rows& b) const { return counts(b); }
};
TORCH_MODULE(EarlyTerms);

template <class Model>
void terms_equal_one_batch(bool unequal) {
  auto batch = class_batches(1, 13, width, classes, at::kDouble)[0];
  auto make = [&] {
    auto model = seeded([] { return Model(); });
    model->unequal = unequal;
    return model;
  };
  auto hand = make();
  auto expected = hand->expected(batch);
  expected.backward();
  Tensors reference;
  for (auto& p : hand->parameters()) reference.push_back(p.detach() - 0.2 * p.grad());
  Trainer<Model, SGD, Accumulate<>> trainer(make(), SGD{.lr = 0.2},
                                            Accumulate<>{.microbatches = 4});
  auto report = trainer.step(batch);
  CHECK(test::worst_relative(parameters_of(trainer.model()), reference) <= 1e-12);
  CHECK(report.loss() == doctest::Approx(expected.template item<double>()).epsilon(1e-12));
  CHECK(2.0 * report.term("fit") + 0.25 * report.term("size") ==
        doctest::Approx(expected.template item<double>()).epsilon(1e-12));
}

TEST_CASE("microbatches equal one big batch, counts known before backward") {
  for (const auto& what : targets()) {
    INFO(what.name);
    equals_one_batch(Accumulate<1>{}, 1, what, what.options, 1e-13);
    equals_one_batch(Accumulate<4>{}, 4, what, what.options, 1e-12);
    for (std::int64_t n : {2, 5, 50})
      equals_one_batch(Accumulate<>{.microbatches = n}, n, what, what.options, 1e-12);
  }
}

TEST_CASE("microbatches equal one big batch, counts known after the last forward") {
  for (const auto& what : targets()) {
    INFO(what.name);
    equals_one_batch(Accumulate<1>{}, 1, what, Late{what.options}, 1e-13);
    equals_one_batch(Accumulate<4>{}, 4, what, Late{what.options}, 1e-12);
  }
}

TEST_CASE("a range of batches equals one batch of all their rows") {
  auto check = []<class Objective>(const Targets& what, Objective objective, double bound) {
    auto whole = batches_of(what, 13);
    double loss = 0;
    auto reference = by_hand(whole, what.options, loss);
    Trainer<torch::nn::Sequential, SGD, Objective, Accumulate<4>> trainer(net(), sgd(), objective);
    Report report;
    for (const auto& b : whole)
      report = trainer.step(std::vector{narrow(b, 0, 5), narrow(b, 5, 1), narrow(b, 6, 7)});
    CHECK(test::worst_relative(parameters_of(trainer.model()), reference) <= bound);
    CHECK(report.loss() == doctest::Approx(loss).epsilon(bound));
    CHECK(report.microbatches == 3);
  };
  for (const auto& what : targets()) {
    INFO(what.name);
    check(what, what.options, 1e-12);
    check(what, Late{what.options}, 1e-12);
  }
}

TEST_CASE("each term is divided by its own count") {
  terms_equal_one_batch<EarlyTerms>(true);
  terms_equal_one_batch<EarlyTerms>(false);
  terms_equal_one_batch<Terms>(false);
}

TEST_CASE("unequal counts of several terms that are known too late are an error") {
  auto batch = class_batches(1, 13, width, classes, at::kDouble)[0];
  Trainer<Terms, SGD, Accumulate<4>> trainer{Terms()};
  auto before = parameters_of(trainer.model());
  auto text = test::message_of<BadModel>([&] { trainer.step(batch); });
  CHECK(test::contains(text, "`size` has another count"));
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
  trainer.model()->unequal = false;
  CHECK_NOTHROW(trainer.step(batch));
}

TEST_CASE("a wrong count is an error at the first step") {
  auto batch = class_batches(1, 13, width, classes, at::kDouble)[0];
  for (bool cut : {false, true}) {
    Trainer<EarlyTerms, SGD, Accumulate<>> trainer(EarlyTerms(),
                                                   Accumulate<>{.microbatches = cut ? 4 : 1});
    trainer.model()->told = 1;
    auto before = parameters_of(trainer.model());
    auto text = test::message_of<BadModel>([&] { trainer.step(batch); });
    CHECK(test::contains(text, "count(batch) returns another number"));
    CHECK(test::same_bits(parameters_of(trainer.model()), before));
    CHECK(trainer.steps() == 0);
    trainer.model()->told = 0;
    CHECK_NOTHROW(trainer.step(batch));
  }
}

}  // namespace guarantees::accumulate
