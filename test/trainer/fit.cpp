// Tests fit, the loop around the step, and its progress bar on a terminal.
#include "test.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <thread>

#include "classifier.hpp"

using namespace ikebana;

namespace test::verbs {

namespace {

/// Returns what is written to stderr if it is a terminal of `columns` columns.
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

TEST_CASE("fit: several batches per step, the last group shorter, each divided by its own count") {
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

TEST_CASE("fit: a loader that writes to a batch before the step that uses it is an error") {
  struct Reuses {
    Rows batch = data(1)[0];
    int passes = 0;
    bool owns = false;
    struct Iterator {
      Reuses* from;
      int i;
      Rows operator*() const {
        Rows& b = from->batch;
        if (from->owns) b.input = b.input.clone();
        b.input.fill_(i);
        return b;
      }
      void operator++() { ++i; }
      bool operator!=(const Iterator& o) const { return i != o.i; }
    };
    Iterator begin() { return {this, 0}; }
    Iterator end() { return {this, 2}; }
  } loader;
  Classifier trainer(net());
  CHECK(contains(message_of<BadBatch>([&] { trainer.fit(loader, {.batches_per_step = 2}); }),
                 "wrote to the memory of a batch"));
  CHECK(trainer.steps() == 0);
  trainer.fit(loader, {});
  loader.owns = true;
  trainer.fit(loader, {.batches_per_step = 2});
  CHECK(trainer.steps() == 3);
  const auto one = data(1)[0];
  trainer.fit(std::vector{one, one}, {.batches_per_step = 2});  // may be given twice
}

TEST_CASE("fit: it stops after the step at which a stop is requested") {
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

/// Returns what is written to stderr if it is no terminal.
template <class F>
std::string off_terminal(F&& f) {
  int sink[2];
  std::fflush(stderr);
  int saved = dup(2);
  REQUIRE(pipe(sink) == 0);
  dup2(sink[1], 2);
  f();
  std::fflush(stderr);
  dup2(saved, 2), close(saved), close(sink[1]);
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = read(sink[0], piece, sizeof piece)) > 0;) text.append(piece, std::size_t(n));
  close(sink[0]);
  return text;
}

TEST_CASE("progress: without a terminal it is plain lines, at most one in each interval") {
  Trainer<Net, CrossEntropyLoss, ClipGradNorm, Observe<Memory>> trainer(net());
  const auto loader = data(3);
  auto train = [&](std::chrono::milliseconds interval, std::int64_t end) {
    return off_terminal([&] {
      Progress progress(true, 2, loader, 1);
      progress.plain_every(interval);
      if (end > 0) progress.end_at(end);
      for (int epoch = 0; epoch < 2; ++epoch)
        for (const auto& batch : loader) progress.draw(epoch, trainer.step(batch));
    });
  };
  const std::string all = train({}, 0);
  CAPTURE(all);
  CHECK(std::count(all.begin(), all.end(), '\n') == 6);
  CHECK(all.find_first_of("\r\033") == all.npos);
  CHECK(all.starts_with("epoch 1/2 step 1/6  loss "));
  CHECK(contains(all, "\nepoch 2/2 step 6/6  loss "));
  for (const char* word : {" items/s", "  lr 1.00e-03", "  norm ", " MiB", "  0 s left\n"})
    CHECK(contains(all, word));
  CHECK(all.substr(all.rfind("MiB")) == "MiB\n");  // at the end no time is left
  CHECK(contains(train({}, 4), "step 1/4  loss "));
  CHECK(train(std::chrono::seconds(100), 0).empty());
}

TEST_CASE("fit: by steps alone, the bar is that of the steps, until the last") {
  Classifier trainer(net());
  const std::string text = on_terminal(200, [&] { trainer.fit(data(3), {.max_steps = 8}); });
  CAPTURE(text);
  CHECK((trainer.steps() == 8 && contains(text, "] 1/8  loss ") && contains(text, "] 8/8  loss ")));
  CHECK(!contains(text, "epoch"));
}

TEST_CASE("fit: a loader of torch::data trains, and no bar is drawn without a terminal") {
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

TEST_CASE("fit: on a terminal the bar shows the report's values, on one line of any width") {
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
    CHECK(text.ends_with("\r\033[K"));  // the bar is erased
  }
}

}  // namespace test::verbs
