// The verbs of a trainer besides step: evaluate, fit, describe, get; moving it, and several at
// once.
#include "test.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <thread>

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;
using test::contains;
using test::random, test::values_of;
using Rows = test::Pairs;

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(5));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  bool saw_gradients = false;
  at::Tensor forward(const at::Tensor& x) {
    saw_gradients = at::GradMode::is_enabled();
    return drop(norm(w(x)));
  }
};
TORCH_MODULE(Net);
Net net(int seed = 0) {
  torch::manual_seed(seed);
  return Net();
}
Rows batch(int seed, std::int64_t n = 8) { return {random({n, 3}, seed), at::arange(n) % 5}; }
std::vector<Rows> data(int n = 6) {
  std::vector<Rows> all;
  for (int i = 0; i < n; ++i) all.push_back(batch(i));
  return all;
}
using Classifier = Trainer<Net, CrossEntropyLoss, SGD>;

/// A user's own metric.
struct LargestLogit {
  std::string name = "largest";
  double largest = -1e9;
  void update(const Rows&, const at::Tensor& outputs) {
    largest = std::max(largest, outputs.max().item<double>());
  }
  double value() const { return largest; }
};
struct RowsSeen {
  std::string name = "rows";
  std::int64_t seen = 0;
  void update(const Rows& batch, const at::Tensor&) { seen += batch.input.size(0); }
  std::int64_t value() const { return seen; }
};

/// What is written to stderr while it is a terminal of `columns` columns.
template <class F>
std::string on_terminal(unsigned short columns, F&& f) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE((master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0));
  int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  std::fflush(stderr);
  int saved = dup(2);
  dup2(terminal, 2);
  f();
  std::fflush(stderr);
  dup2(saved, 2), close(saved), close(terminal);
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = read(master, piece, sizeof piece)) > 0;) text.append(piece, std::size_t(n));
  close(master);
  return text;
}

}  // namespace

TEST_CASE("evaluate: no gradients, evaluation mode, each module's own mode back, nothing changed") {
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
  for (int again = 0; again < 2; ++again) {  // each evaluation begins from what was given
    Evaluation measured = trainer.evaluate(data(), Accuracy{}, mine, Accuracy{.name = "b"});
    CHECK(measured["accuracy"] == hits.item<double>() / 48);
    CHECK(measured["largest"] == largest);
    CHECK(measured["b"] == measured["accuracy"]);
    CHECK(contains(test::message_of<Error>([&] { measured["c"]; }), "no metric `c`"));
  }
  CHECK(mine.largest == -1e9);
}

TEST_CASE("fit: it makes the steps of the loop, validates, calls back, and stops when asked") {
  Net model = net(), by_hand = net();
  Classifier trainer(model), loop(by_hand);
  auto train = data(), valid = data(2);
  std::vector<double> losses;
  int epochs = 0;
  torch::manual_seed(3);
  History history =
      trainer.fit(train, {.epochs = 2,
                          .validate = valid,
                          .metrics = {Accuracy{}, RowsSeen{}},
                          .on_step = [&](const Report& r) { losses.push_back(r.loss()); },
                          .on_epoch = [&](const Epoch& e) { CHECK(e.epoch == epochs++); }});
  torch::manual_seed(3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    double sum = 0;
    for (std::size_t i = 0; i < train.size(); ++i) {
      double loss = loop.step(train[i]).loss();
      sum += loss;
      CHECK(losses[std::size_t(epoch) * 6 + i] == loss);
    }
    CHECK(history[std::size_t(epoch)].loss == sum / 6);
    Evaluation validation = loop.evaluate(valid, Accuracy{});
    CHECK(history[std::size_t(epoch)].validation->loss == validation.loss);
    CHECK((*history[std::size_t(epoch)].validation)["accuracy"] == validation["accuracy"]);
    CHECK((*history[std::size_t(epoch)].validation)["rows"] == 16);
  }
  CHECK(epochs == 2);
  CHECK(losses.size() == 12);
  CHECK(history[0].steps == 6);
  CHECK(test::same_bits(values_of(model), values_of(by_hand)));
}

TEST_CASE("fit: several batches a step, the last group shorter, each divided by its own count") {
  Net model = net(), by_hand = net();
  Classifier trainer(model), loop(by_hand);
  std::vector<std::int64_t> microbatches;
  torch::manual_seed(3);
  trainer.fit(data(5), {.batches_per_step = 2, .on_step = [&](const Report& r) {
                          microbatches.push_back(r.microbatches);
                        }});
  CHECK(microbatches == std::vector<std::int64_t>{2, 2, 1});
  torch::manual_seed(3);
  auto all = data(5);
  for (auto group : {std::vector{all[0], all[1]}, std::vector{all[2], all[3]}, std::vector{all[4]}})
    loop.step(group);
  CHECK(test::same_bits(values_of(model), values_of(by_hand)));
}

TEST_CASE("fit: it stops after the step at which it is told to") {
  Classifier trainer(net());
  History history =
      trainer.fit(data(6), {.epochs = 2, .stop = [&] { return trainer.steps() == 4; }});
  CHECK(history.size() == 1);
  CHECK(history[0].steps == 4);
}

TEST_CASE("fit: another thread can stop it") {
  Classifier trainer(net());
  std::atomic<bool> stop = false, stepped = false;
  std::thread other([&] {
    while (!stepped) std::this_thread::yield();
    stop = true;
  });
  History history = trainer.fit(data(), {.epochs = 1000000,
                                         .on_step = [&](const Report&) { stepped = true; },
                                         .stop = [&] { return stop.load(); }});
  other.join();
  CHECK(history.size() < 1000000);
  CHECK(trainer.steps() >= 1);
}

TEST_CASE("fit: a loader of torch::data trains, and nothing is drawn where there is no terminal") {
  struct Sets : torch::data::datasets::Dataset<Sets> {
    torch::data::Example<> get(std::size_t i) override {
      return {random({3}, int(i)), at::scalar_tensor(std::int64_t(i % 5), at::kLong)};
    }
    torch::optional<std::size_t> size() const override { return 20; }
  };
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Sets().map(torch::data::transforms::Stack<>()), 6);
  Classifier trainer(net());
  std::fflush(stderr);
  int saved = dup(2), sink[2];
  REQUIRE(pipe(sink) == 0);
  dup2(sink[1], 2);
  History history = trainer.fit(loader, {.epochs = 2, .validate = loader});
  std::fflush(stderr);
  dup2(saved, 2), close(saved), close(sink[1]);
  char drawn[8];
  CHECK(read(sink[0], drawn, sizeof drawn) == 0);
  close(sink[0]);
  CHECK(history.size() == 2);
  CHECK(history[1].steps == 4);
  CHECK(history[1].validation->count == 20);
  CHECK(trainer.evaluate(loader).count == 20);
}

TEST_CASE("fit: on a terminal a bar tells what policies know, on one line of any width") {
  for (unsigned short columns : {200, 80, 30}) {
    CAPTURE(columns);
    Trainer<Net, CrossEntropyLoss, ClipGradNorm, Observe<Memory>> trainer(net());
    std::string text = on_terminal(columns, [&] { trainer.fit(data(6), {.epochs = 2}); });
    CAPTURE(text);
    CHECK(contains(text, "epoch 1/2 "));
    CHECK(contains(text, "epoch 2/2 "));
    CHECK(contains(text, "6/6"));
    if (columns == 200)
      for (const char* word : {"[####", "  loss ", " items/s", "  lr 1.00e-03", "  norm ", " MiB"})
        CHECK(contains(text, word));
    std::size_t length = 0;
    for (char c : text) {
      length = c == '\r' || c == '\n' ? 0 : length + 1;
      CHECK(length < columns + std::strlen("\033[K"));
    }
    CHECK(text.ends_with("\r\033[K"));  // nothing is left of it
  }
}

TEST_CASE("describe: the whole recipe in wrapping order, defaults and their values included") {
  Trainer<test::OpenNet, Accumulate<4>, Checkpoint<Full>, ClipGradNorm> trainer(test::OpenNet{});
  trainer.get<AdamW>().lr = 0.25;
  std::string text = trainer.describe();
  std::size_t at = 0;
  for (const char* word :
       {"Trainer of test::OpenNet, 4 units, on cpu", "Capture<Off>", "Shard<Off>", "Offload<Off>",
        "Checkpoint<Full>", "Precision<FP32>", "Prune<Off>", "Quantize<Off>", "Accumulate<4>",
        "ClipGradNorm", "max_norm=1", "AdamW", "lr=0.25", "betas=(0.9, 0.999)", "weight_decay=0.01",
        "ConstantLR", "factor=1", "warmup_steps=0", "Freeze<Off>"}) {
    CAPTURE(text);
    CAPTURE(word);
    CHECK(text.find(word, at) != std::string::npos);
    at = std::min(text.find(word, at), text.size());
  }
}

TEST_CASE("trainer: it may move while the model lives, and trains on") {
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
  CHECK_NOTHROW(make()->step(batch(2)));  // the parameters are free again
}

TEST_CASE("trainer: two on two threads at once train as one after the other") {
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
