// Checkpoint<Segments>: consecutive units share a frame. Every and Only: which units have one.
#include "test.hpp"

#include "guarantees/work.hpp"

namespace guarantees::segments {

using Body = WorkImpl::Body;

/// Counts how often each of `n` units is computed in a step, and notes which of them run in
/// backward.
template <class Word>
std::vector<int> runs(std::size_t n, Word word = {}) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < n; ++i)
    works.emplace_back([](WorkImpl& w, at::Tensor x) { return at::tanh(x * w.weight); });
  Trainer<Bench, SGD, Word> trainer(bench(works), word);
  trainer.step(some_rows());
  std::vector<int> counts;
  for (auto& work : works) counts.push_back(work->begun);
  return counts;
}
std::vector<int> twice_where(std::size_t n, auto chosen) {
  std::vector<int> counts;
  for (std::size_t i = 0; i < n; ++i) counts.push_back(chosen(i) ? 2 : 1);
  return counts;
}

/// Returns the peak bytes of a step above the bytes before it, in tensors of `bytes`.
template <class Word>
double peak_of(std::size_t units, Word word = {}) {
  constexpr std::int64_t bytes = 1 << 16;
  bridge::MemoryCounter counter(at::kCPU);
  std::vector<Work> works;
  for (std::size_t i = 0; i < units; ++i)
    works.emplace_back([](WorkImpl& w, at::Tensor x) {
      x = x * w.weight;
      for (int k = 0; k < 9; ++k) x = at::tanh(x);
      return x;
    });
  Trainer<Bench, SGD, Word> trainer(bench(works), word);
  auto input = torch::ones({bytes / 16, 4});
  trainer.step(input);
  auto before = counter.now();
  counter.reset_peak();
  trainer.step(input);
  return static_cast<double>(counter.peak() - before) / bytes;
}

/// A chain whose model computes something between units.
struct BetweenImpl : torch::nn::Module {
  using units = Units<Work>;
  using Step = std::function<at::Tensor(std::size_t, at::Tensor)>;
  std::vector<Work> works;
  Step between;
  BetweenImpl(std::size_t n, Body body, Step step) : between(std::move(step)) {
    for (std::size_t i = 0; i < n; ++i)
      works.push_back(register_module("work" + std::to_string(i), Work(body)));
  }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i < works.size(); ++i) x = run(works[i], between(i, x));
    return {(x * x).sum(), x.numel()};
  }
};
TORCH_MODULE(Between);

/// Units with more arguments than the previous result: a mask for all, one of their own, and the
/// result of the unit before the previous one.
struct GivenImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::full({4}, 0.5));
  int begun = 0;
  std::pair<at::Tensor, std::vector<at::Tensor>> forward(at::Tensor x, const at::Tensor& mask,
                                                         std::vector<at::Tensor> others) {
    ++begun;
    auto y = at::dropout(at::tanh(x * weight) * mask, 0.2, true);
    for (auto& other : others) y = y + at::sin(other) * weight;
    return {y, {at::cos(y), x * 2}};
  }
};
TORCH_MODULE(Given);
struct GivingImpl : torch::nn::Module {
  using units = Units<Given>;
  std::vector<Given> givens;
  GivingImpl() {
    for (int i = 0; i < 6; ++i)
      givens.push_back(register_module("given" + std::to_string(i), Given()));
  }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& input) {
    at::Tensor x = input, mask = (input > 0).to(at::kFloat) + 0.5;
    std::vector<at::Tensor> others, older;
    for (std::size_t i = 0; i < givens.size(); ++i) {
      auto own = others;
      if (i % 2) own.push_back(input * static_cast<double>(i));
      if (!older.empty()) own.push_back(older[0]);
      older = others;
      std::tie(x, others) = run(givens[i], x, mask, own);
    }
    return {(x * x).sum() + others[0].sum(), x.numel()};
  }
};
TORCH_MODULE(Giving);

template <class Model, class Word>
Trace trace_of(Model model, Word word) {
  Trainer<Model, SGD, Word> trainer(model, SGD{.lr = 0.05}, word);
  return three_steps_of(trainer);
}

TEST_CASE("segments: each unit of each run is recomputed once") {
  CHECK(runs<Checkpoint<Segments<3>>>(9) == twice_where(9, [](auto) { return true; }));
  CHECK(runs<Checkpoint<Segments<>>>(9, {.segments = 3}) ==
        twice_where(9, [](auto) { return true; }));
}

TEST_CASE("segments: every K-th unit and chosen units are recomputed, no others") {
  CHECK(runs<Checkpoint<Every<2>>>(5) == twice_where(5, [](auto i) { return i % 2 == 0; }));
  CHECK(runs<Checkpoint<Every<>>>(7, {.every = 3}) ==
        twice_where(7, [](auto i) { return i % 3 == 0; }));
  CHECK(runs<Checkpoint<Only<Work>>>(4) == twice_where(4, [](auto) { return true; }));
  Checkpoint<Only<>> by_name{.match = [](const Unit& unit) { return unit.name == "work1"; }};
  CHECK(runs(4, by_name) == twice_where(4, [](auto i) { return i == 1; }));
}

TEST_CASE("segments: a run keeps the inputs of its first unit, and is recomputed as a whole") {
  const double full = peak_of<Checkpoint<Full>>(16), none = peak_of<Checkpoint<Off>>(16);
  const double four = peak_of<Checkpoint<Segments<4>>>(16);
  const double sqrt = peak_of<Checkpoint<Segments<>>>(16);
  CHECK(none > 16 * 9);
  CHECK(full < 16 + 2 * 10);     // sixteen inputs, the activations of one unit
  CHECK(four < 4 + 4 * 10 + 8);  // four inputs, the activations of four units
  CHECK(sqrt == four);
  CHECK(peak_of<Checkpoint<Segments<16>>>(16) == doctest::Approx(full).epsilon(0.1));
  CHECK(peak_of<Checkpoint<Segments<1>>>(16) == doctest::Approx(none).epsilon(0.15));
  const double half = peak_of<Checkpoint<Every<2>>>(16);
  CHECK(half < none * 0.6);
  CHECK(half > none * 0.4);
}

TEST_CASE("segments: where the model computes between two units, a new run begins") {
  Body body = [](WorkImpl& w, at::Tensor x) {
    return at::dropout(at::tanh(x * w.weight), 0.2, true);
  };
  using Step = BetweenImpl::Step;
  const std::pair<const char*, Step> all[] = {
      {"nothing", [](auto, auto x) { return x; }},
      {"a function after the second", [](auto i, auto x) { return i == 2 ? at::sin(x) : x; }},
      {"a function after each", [](auto, auto x) { return at::sin(x); }},
      {"a change in place of a result", [](auto i, auto x) { return i == 2 ? x.mul_(2) : x; }},
      {"random numbers that are not used", [](auto, auto x) { return torch::rand({3}), x; }},
      {"a change in place", [](auto i, auto x) { return i == 2 ? (x * 1).mul_(2) : x; }}};
  for (const auto& [name, step] : all) {
    INFO(std::string(name));
    auto train = [&](auto word) { return trace_of(Between(std::size_t(6), body, step), word); };
    auto without = train(Checkpoint<Off>{});
    CHECK(moved(without, 3));
    CHECK(test::same_bits(train(Checkpoint<Segments<2>>{}), without));
    CHECK(test::same_bits(train(Checkpoint<Segments<1>>{}), without));
  }
}

TEST_CASE("segments: units may have masks, values and results of older units as arguments") {
  auto train = [](auto word) { return trace_of(Giving(), word); };
  auto without = train(Checkpoint<Off>{});
  CHECK(moved(without, 3));
  CHECK(test::same_bits(train(Checkpoint<Full>{}), without));
  CHECK(test::same_bits(train(Checkpoint<Segments<2>>{}), without));
  CHECK(test::same_bits(train(Checkpoint<Segments<1>>{}), without));
  Giving model;
  Trainer<Giving, SGD, Checkpoint<Segments<2>>>(model).step(some_rows(5));
  for (auto& given : model->givens) CHECK(given->begun == 2);
}

TEST_CASE("segments: a run whose gradient is taken early adds no further unit") {
  auto train = [](auto word) {
    Work first([](WorkImpl& w, at::Tensor x) { return at::tanh(x * w.weight); });
    auto ask = [](std::size_t i, at::Tensor x) {
      if (i == 2) torch::autograd::grad({x.sum()}, {x}, {}, true);
      return x;
    };
    auto model = Between(std::size_t(4), first->body, ask);
    auto trace = trace_of(model, word);
    for (auto& work : model->works) trace.push_back(at::scalar_tensor(work->begun - work->ended));
    return trace;
  };
  auto with = train(Checkpoint<Segments<1>>{}), without = train(Checkpoint<Off>{});
  CHECK(test::same_bits(with[0], without[0]));
  CHECK(test::same_bits(with[3], without[3]));
}

TEST_CASE("segments: invalid counts are errors that name the value") {
  auto refusal = [](auto word) {
    Work work([](auto&, auto x) { return x; });
    return test::message_of<BadValue>([&] { Trainer<Bench, decltype(word)>(bench({work}), word); });
  };
  CHECK(test::contains(refusal(Checkpoint<Every<>>{.every = 0}), "it must be 1 or more"));
  CHECK(test::contains(refusal(Checkpoint<Segments<>>{.segments = -1}), "it must be 1 or more"));
  CHECK(test::contains(refusal(Checkpoint<Only<>>{}), "match is empty"));
  Checkpoint<Only<>> none{.match = [](const Unit&) { return false; }};
  Work work([](auto&, auto x) { return x; });
  CHECK(test::contains(
      test::message_of<BadModel>([&] { Trainer<Bench, Checkpoint<Only<>>>(bench({work}), none); }),
      "choose none of the model's units"));
}

}  // namespace guarantees::segments
