// The methods of a trainer besides step and fit: evaluate, describe, get; moving a trainer, and
// several at once.
#include "test.hpp"

#include <thread>

#include "classifier.hpp"
#include "runner_net.hpp"

using namespace ikebana;

namespace test::verbs {

namespace {

/// A user-defined metric.
struct LargestLogit {
  std::string name = "largest";
  double largest = -1e9;
  void update(const Rows&, const at::Tensor& outputs) {
    largest = std::max(largest, outputs.max().item<double>());
  }
  double value() const { return largest; }
};

}  // namespace

TEST_CASE("evaluate: no gradients, evaluation mode, each module's mode restored, nothing changed") {
  Net model = net();
  Classifier trainer(model);
  trainer.step(batch(0));
  CHECK(model->saw_gradients);
  model->norm->eval();  // a frozen norm stays frozen
  const auto before = values_of(model);
  Evaluation found = trainer.evaluate(data());
  CHECK(!model->saw_gradients);
  CHECK(test::same_bits(values_of(model), before));
  CHECK((model->is_training() && model->w->is_training() && model->drop->is_training()));
  CHECK(!model->norm->is_training());
  CHECK(trainer.steps() == 1);
  CHECK(test::no_gradients(model));

  model->eval();
  at::Tensor sum = at::zeros({}, at::kDouble), hits = at::zeros({}, at::kLong);
  double largest = -1e9;
  torch::NoGradGuard no_grad;
  for (const auto& rows : data()) {
    at::Tensor logits = model->forward(rows.input);
    sum += at::cross_entropy_loss(logits, rows.target, {}, at::Reduction::Sum);
    hits += (logits.argmax(1) == rows.target).sum();
    largest = std::max(largest, logits.max().item<double>());
  }
  model->train();
  CHECK(found.count == 48);
  CHECK(found.loss == doctest::Approx(sum.item<double>() / 48).epsilon(1e-6));
  LargestLogit mine;
  for (int again = 0; again < 2; ++again) {  // each evaluation begins from the given metric
    Evaluation measured = trainer.evaluate(data(), Accuracy{}, mine, Accuracy{.name = "b"});
    CHECK(measured["accuracy"] == hits.item<double>() / 48);
    CHECK(measured["largest"] == largest);
    CHECK(measured["b"] == measured["accuracy"]);
    CHECK(contains(test::message_of<Error>([&] { measured["c"]; }), "no metric `c`"));
  }
  CHECK(mine.largest == -1e9);
}

/// Metrics that write to their tensors in place: one of plain fields, which are copied, and one
/// whose copies share them.
struct Added {
  std::string name = "added";
  at::Tensor rows = at::zeros({}, at::kLong);
  std::vector<at::Tensor> more = {at::zeros({}, at::kLong)};
  void update(const Rows&, const at::Tensor& outputs) {
    rows += outputs.size(0), more[0] += outputs.size(0);
  }
  double value() const { return (rows + more[0]).item<double>() / 2; }
};
class Shared {
 public:
  std::string name = "shared";
  void update(const Rows&, const at::Tensor& outputs) { rows_ += outputs.size(0); }
  double value() const { return rows_.item<double>(); }
  void reset() { rows_.zero_(); }

 private:
  at::Tensor rows_ = at::zeros({}, at::kLong);
};
struct Derived : Added {  // its own fields are not seen
  int calls[2] = {};
  void reset() { rows = at::zeros({}, at::kLong), more = {rows.clone()}; }
};

TEST_CASE("evaluate: each evaluation begins from a metric as it was given, tensors included") {
  Classifier trainer(net());
  Added added, third{.name = "third"};
  Shared shared;
  Derived derived;
  derived.name = "derived";
  third.rows += 100;
  for (int again = 0; again < 2; ++again) {
    const Evaluation found = trainer.evaluate(data(), added, shared, derived, third);
    for (const char* name : {"added", "shared", "derived"}) CHECK(found[name] == 48);
    CHECK(found["third"] == 98);
  }
  CHECK(added.value() == 0);
}

TEST_CASE("describe: the whole recipe in wrapping order, defaults and their values included") {
  Trainer<test::OpenNet, Accumulate<4>, Checkpoint<Full>, ClipGradNorm> trainer(test::OpenNet{});
  trainer.get<AdamW>().lr = 0.25;
  std::string text = trainer.describe();
  std::size_t at = 0;
  for (const char* word :
       {"Trainer of test::OpenNet, 4 units, on cpu", "Capture<Off>", "Shard<Off>", "Offload<Off>",
        "Checkpoint<Full>", "Precision<FP32>", "Accumulate<4>", "ClipGradNorm", "max_norm=1",
        "AdamW", "lr=0.25", "betas=(0.9, 0.999)", "weight_decay=0.01", "ConstantLR", "factor=1",
        "warmup_steps=0", "Freeze<Off>"}) {
    CAPTURE(text);
    CAPTURE(word);
    CHECK(text.find(word, at) != std::string::npos);
    at = std::min(text.find(word, at), text.size());
  }
}

TEST_CASE("trainer: it may be moved while the model exists, and continues to train") {
  Net model = net(), still = net();
  Classifier unmoved(still);
  auto make = [&] { return std::make_unique<Classifier>(model); };
  auto trainer = make();
  torch::manual_seed(5);
  trainer->step(batch(0));
  Classifier moved = std::move(*trainer);
  trainer.reset();
  std::vector<Classifier> held;
  held.push_back(std::move(moved));
  held[0].step(batch(1));
  torch::manual_seed(5);
  unmoved.step(batch(0)), unmoved.step(batch(1));
  CHECK(test::same_bits(values_of(model), values_of(still)));
  held.clear();
  CHECK_NOTHROW(make()->step(batch(2)));  // no trainer holds the parameters any more
}

TEST_CASE("trainer: two in two threads at once train as one after the other") {
  struct QuietImpl : torch::nn::Module {
    torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
    at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
  };
  auto work = [](std::shared_ptr<QuietImpl> model) {
    Trainer<QuietImpl, CrossEntropyLoss, Precision<BF16>, Checkpoint<Full>, Accumulate<2>,
            ClipGradNorm, Observe<Memory>>
        trainer(model);
    for (int i = 0; i < 30; ++i) trainer.step(batch(i));
    trainer.evaluate(data());
  };
  std::vector<std::shared_ptr<QuietImpl>> alone, together;
  for (auto* models : {&alone, &together})
    for (int seed : {1, 2}) {
      torch::manual_seed(seed);
      models->push_back(std::make_shared<QuietImpl>());
    }
  for (const auto& model : alone) work(model);
  std::thread first(work, together[0]), second(work, together[1]);
  first.join(), second.join();
  for (std::size_t i : {0, 1}) CHECK(test::same_bits(values_of(alone[i]), values_of(together[i])));
}

}  // namespace test::verbs
