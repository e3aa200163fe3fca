// A recompute draws the numbers of its forward, or reports that another thread drew in between.
#include "test.hpp"

#include <atomic>
#include <thread>

#include "guarantees/work.hpp"

namespace guarantees::random_numbers {

void draw_elsewhere(std::int64_t count) {
  std::thread([count] { torch::rand({count}); }).join();
}
at::Tensor drop(const at::Tensor& x) { return torch::dropout(x, 0.5, /*train=*/true); }

/// A unit's body while another thread draws.
struct Disturbed {
  std::string name;
  WorkImpl::Body body;
  bool reported;  // or else right
};
const Disturbed reported[] = {
    {"in forward, before the unit draws",
     [](auto& w, auto x) {
       if (w.begun == 1) draw_elsewhere(1);
       return drop(x * w.weight);
     },
     true},
    {"in forward, between two draws",
     [](auto& w, auto x) {
       x = drop(x * w.weight);
       if (w.begun == 1) draw_elsewhere(700);
       return at::tanh(drop(x));
     },
     true},
    {"in every recompute",
     [](auto& w, auto x) {
       x = at::tanh(x * w.weight);
       if (w.begun > 1) draw_elsewhere(1);
       return drop(x);
     },
     true},
    {"after the draw in forward, and as much before it in every recompute",
     [](auto& w, auto x) {
       if (w.begun > 1) draw_elsewhere(1);
       const at::Tensor mask = at::empty_like(x).bernoulli_(0.5);
       if (w.begun == 1) draw_elsewhere(1);
       return at::tanh(x * w.weight * mask);
     },
     true},
};
const Disturbed harmless[] = {
    {"in the first recompute, which is repeated",
     [](auto& w, auto x) {
       if (w.begun == 2) draw_elsewhere(1);
       return at::tanh(drop(x * w.weight));
     },
     false},
    {"after the last tensor that is saved",
     [](auto& w, auto x) {
       auto y = drop(at::tanh(x * w.weight));
       draw_elsewhere(1);
       return y;
     },
     false},
    {"and the unit draws nothing",
     [](auto& w, auto x) {
       draw_elsewhere(w.begun);
       x = at::tanh(x * w.weight);
       draw_elsewhere(w.begun + 3);
       return at::sin(x * w.weight);
     },
     false},
};

/// One step's error and trace; the random generator starts from a fixed seed.
template <class Word>
std::pair<std::string, Trace> one_step(const WorkImpl::Body& body, bool nested, Word word = {}) {
  torch::manual_seed(1);
  Trainer<Bench, SGD, Word> trainer(bench({Work(body)}, {}, nested), SGD{.lr = 0.1}, word);
  Trace trace = {at::zeros({})};
  auto what = test::message_of<BadRecompute>([&] { trace[0] = trainer.step(some_rows()).mean(); });
  for (auto& p : parameters_of(trainer.model())) trace.push_back(p);
  return {what, trace};
}

template <class Word>
void compare_with_off(const Disturbed& unit, bool nested, Word word = {}) {
  INFO(unit.name);
  auto [error, trace] = one_step<Word>(unit.body, nested, word);
  CHECK(test::contains(error, unit.reported ? "another thread drew from the same generator" : ""));
  CHECK(error.empty() == !unit.reported);
  if (!unit.reported)
    CHECK(test::same_bits(trace, one_step<Checkpoint<Off>>(unit.body, nested).second));
}

TEST_CASE("random numbers: what another thread draws meanwhile is reported, or changes nothing") {
  auto test_all = [](const auto& list, bool nested) {
    for (const auto& unit : list)
      FramesOfUnits::each(
          [&]<class Word>(const std::string&) { compare_with_off<Word>(unit, nested); });
  };
  for (bool nested : {false, true}) test_all(reported, nested), test_all(harmless, nested);
}

TEST_CASE("random numbers: a kept operator that draws counts as drawn") {
  Checkpoint<Selective> kept{.keep = operators({"aten::bernoulli"})};
  auto mask = [](const at::Tensor& x) { return at::bernoulli(at::full_like(x, 0.5)); };
  const Disturbed last{"the kept one is the last",
                       [&](auto& w, auto x) {
                         x = drop(x * w.weight);
                         if (w.begun == 1) draw_elsewhere(1);
                         return x * mask(x);
                       },
                       false};
  const Disturbed first{"the kept one is the first",
                        [&](auto& w, auto x) {
                          x = x * w.weight * mask(x);
                          if (w.begun == 1) draw_elsewhere(1);
                          return drop(x);
                        },
                        true};
  for (bool nested : {false, true}) {
    compare_with_off(first, nested, kept);
    compare_with_off(last, nested, kept);
  }
}

TEST_CASE("random numbers: two units of one segment") {
  using Word = Checkpoint<Segments<1>>;
  WorkImpl::Body adds = [](auto& w, auto x) {
    x = at::tanh(x * w.weight);
    if (w.begun == 1) draw_elsewhere(1);
    return x + torch::randn({4});  // nothing is saved after this draw
  };
  WorkImpl::Body plain = [](auto& w, auto x) { return at::tanh(x * w.weight); };
  Trainer<Bench, SGD, Word> trainer(bench({Work(adds), Work(plain)}));
  auto text = test::message_of<BadRecompute>([&] { trainer.step(some_rows()); });
  CHECK(test::contains(text, "`work0, work1` draws random numbers"));
}

TEST_CASE("random numbers: no false alarm") {
  WorkImpl::Body none = [](auto& w, auto x) { return at::tanh(x * w.weight); };
  WorkImpl::Body last = [](auto& w, auto x) { return drop(at::tanh(x * w.weight)); };
  WorkImpl::Body normal = [](auto& w, auto x) {
    return at::tanh(drop(x) * w.weight + torch::randn({1}) + torch::randn({3, 4}));
  };
  auto run = [&]<class Word>(const WorkImpl::Body& body, bool nested, int steps, Word word = {}) {
    Trainer<Bench, SGD, Word> trainer(bench({Work(body)}, {}, nested), SGD{.lr = 0}, word);
    for (int i = 0; i < steps; ++i) trainer.step(some_rows());
    CHECK(trainer.steps() == steps);
  };
  for (bool nested : {false, true})
    for (const auto& body : {none, last, normal}) run(body, nested, 1500, Checkpoint<Full>());
  run(normal, true, 1000, Checkpoint<Selective>{.keep = operators({"aten::randn"})});
}

TEST_CASE("random numbers: a thread that draws all the time changes no unit that draws nothing") {
  WorkImpl::Body body = [](auto& w, auto x) { return at::tanh(at::sin(x * w.weight) * w.weight); };
  std::atomic<bool> ended = false;
  std::thread drawing([&] {
    while (!ended) torch::rand({2});
  });
  FramesOfUnits::each([&]<class Word>(const std::string& word) {
    INFO(word);
    Trainer<Bench, SGD, Word> trainer(bench({Work(body)}, {}, /*nested=*/true));
    Trainer<Bench, SGD> without(bench({Work(body)}, {}, true));
    for (int i = 0; i < 100; ++i) trainer.step(some_rows()), without.step(some_rows());
    CHECK(test::same_bits(parameters_of(trainer.model()), parameters_of(without.model())));
  });
  ended = true;
  drawing.join();
}

}  // namespace guarantees::random_numbers
