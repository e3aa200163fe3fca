// Objectives: which loss is minimized, and what it is divided by.
#include "test.hpp"

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;

/// Returns the loss of a model that is declared in a header.
Loss test::ClosedNetImpl::loss(Runner& run, const Pairs& batch) { return by(run, batch); }

namespace test::objective {

using Rows = Pairs;
namespace F = torch::nn::functional;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  bool by_sequence = false;  // (N, T, 3) to (N, 5, T), classes in dimension 1
  at::Tensor forward(const at::Tensor& x) { return by_sequence ? w(x).transpose(1, 2) : w(x); }
};
TORCH_MODULE(Net);
Net net(bool by_sequence = false) {
  torch::manual_seed(0);
  Net model;
  model->by_sequence = by_sequence;
  return model;
}
auto near(double value) { return doctest::Approx(value).epsilon(1e-6); }

/// A trainer's first loss, whole and cut in three, must be PyTorch's mean over the whole batch.
void check_cross_entropy(const CrossEntropyLoss& values, const Rows& batch,
                         bool by_sequence = false) {
  auto mean = F::cross_entropy(net(by_sequence)->forward(batch.input), batch.target,
                               F::CrossEntropyFuncOptions()
                                   .ignore_index(values.ignore_index)
                                   .label_smoothing(values.label_smoothing)
                                   .weight(values.weight)
                                   .reduction(torch::kMean));
  double expected = mean.item<double>();
  Trainer whole{net(by_sequence), CrossEntropyLoss(values)};
  Trainer cut{net(by_sequence), CrossEntropyLoss(values), Accumulate<3>{}};
  CHECK(whole.step(batch).loss() == near(expected));
  CHECK(cut.step(batch).loss() == near(expected));
  Trainer judge{net(by_sequence), CrossEntropyLoss(values)};
  CHECK(judge.evaluate(std::vector{batch}).loss == near(expected));
}

/// Two named terms that count different items, and the ways in which they give their counts.
struct TermsImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    auto y = w(batch.input);
    return {.sum = {},
            .count = 0,
            .outputs = y,
            .terms = {{"fit", (y - batch.target).pow(2).sum(), y.numel(), 1},
                      {"size", y.abs().sum(), y.size(0), 0.25}}};
  }
  std::vector<Count> count(const Rows& batch) {
    return {batch.target.numel(), batch.target.size(0)};
  }
};
TORCH_MODULE(Terms);

struct Functor {
  std::shared_ptr<int> asked = std::make_shared<int>();
  template <class Run>
  Loss operator()(Run& run, Net& model, const Rows& batch) {
    return {at::mse_loss(run(model, batch.input), batch.target, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(Net&, const Rows& batch) {
    ++*asked;
    return batch.target.numel();
  }
};
template <class Run>
Loss by_function(Run& run, Net& model, const Rows& batch) {
  return Functor{}(run, model, batch);
}

/// Declares units, and uses `run` to call them.
struct ShownImpl : torch::nn::Module {
  using units = Units<test::Layer>;
  test::Layer a = register_module("a", test::Layer()), b = register_module("b", test::Layer());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(b, run(a, x));
  }
};
TORCH_MODULE(Shown);
Shown shown() {
  torch::manual_seed(0);
  return Shown();
}

/// Records which units are run.
struct Names {
  using axis = ikebana::axis::observe;
  std::shared_ptr<std::vector<std::string>> seen = std::make_shared<std::vector<std::string>>();
};

}  // namespace test::objective

template <>
struct ikebana::Mechanism<test::objective::Names> : ObserveHooks {
  test::objective::Names values;
  explicit Mechanism(test::objective::Names v) : values(std::move(v)) {}
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    values.seen->push_back(unit.name);
    return next(std::forward<Args>(args)...);
  }
};

namespace test::objective {

TEST_CASE("objective: CrossEntropyLoss is PyTorch's mean, whatever its options and microbatches") {
  auto x = random({8, 3});
  auto target = at::arange(8) % 5;
  auto weight = at::tensor({1.0f, 2.0f, 0.5f, 3.0f, 1.5f});
  check_cross_entropy({}, {x, target});
  auto masked = target.clone();
  masked.slice(0, 0, 4).fill_(-100);
  check_cross_entropy({}, {x, masked});
  check_cross_entropy({.label_smoothing = 0.1}, {x, masked});
  check_cross_entropy({.weight = weight}, {x, target});
  check_cross_entropy({.label_smoothing = 0.2, .weight = weight}, {x, masked});
  auto padded = target.clone();
  padded.slice(0, 2, 5).fill_(255);
  check_cross_entropy({.ignore_index = 255}, {x, padded});
  check_cross_entropy({.ignore_index = 255, .weight = weight}, {x, padded});
  check_cross_entropy({.ignore_index = 1}, {x, target});
}

TEST_CASE("objective: CrossEntropyLoss takes probabilities and sequences") {
  auto probabilities = at::softmax(random({8, 5}, 2), 1);
  check_cross_entropy({}, {random({8, 3}), probabilities});
  check_cross_entropy({.label_smoothing = 0.1}, {random({8, 3}), probabilities});
  auto tokens = (at::arange(28) % 5).view({4, 7});
  check_cross_entropy({}, {random({4, 7, 3}), tokens}, true);
  check_cross_entropy({.ignore_index = 3}, {random({4, 7, 3}), tokens}, true);
  check_cross_entropy({}, {random({4, 7, 3}), at::softmax(random({4, 5, 7}, 2), 1)}, true);
}

TEST_CASE("objective: MSELoss, a lambda, a function and a functor minimize the same") {
  Rows batch{random({7, 3}), random({7, 5}, 2)};
  auto after = [&](auto trainer) {
    trainer.step(batch);
    return trainer.model()->w->weight.detach().clone();
  };
  auto lambda = [](auto& run, Net& model, const Rows& b) { return Functor{}(run, model, b); };
  auto function =
      +[](Runner& run, Net& model, const Rows& b) { return by_function(run, model, b); };
  Functor functor;
  auto expected = after(Trainer{net(), MSELoss{}, SGD{.lr = 0.1}});
  CHECK(!test::same_bits(expected, net()->w->weight));
  CHECK(test::same_bits(after(Trainer{net(), lambda, SGD{.lr = 0.1}}), expected));
  CHECK(test::same_bits(after(Trainer{net(), functor, SGD{.lr = 0.1}}), expected));
  CHECK(*functor.asked == 1);
  CHECK(test::same_bits(after(Trainer{net(), function, SGD{.lr = 0.1}}), expected));
  auto cut = after(Trainer{net(), functor, SGD{.lr = 0.1}, Accumulate<3>{}});
  CHECK(*functor.asked == 4);
  CHECK(test::worst_relative({cut}, {expected}) < 1e-6);
  auto late = after(Trainer{net(), lambda, SGD{.lr = 0.1}, Accumulate<3>{}});
  CHECK(test::worst_relative({late}, {expected}) < 1e-6);
}

TEST_CASE("objective: run(model, x) calls the units that a model declares") {
  namespace nn = torch::nn;
  Rows batch{random({7, 3}), random({7, 5}, 2)};
  auto sequence = [] {
    torch::manual_seed(0);
    return nn::Sequential(nn::Linear(3, 8), nn::Functional(at::tanh), nn::Dropout(0.5),
                          nn::Linear(8, 5));
  };
  auto mse = [](auto& run, auto& model, const Rows& b) -> Loss {
    return {at::mse_loss(run(model, b.input), b.target, at::Reduction::Sum), b.target.numel()};
  };
  auto erased = [mse]<class Model>(const Model&) {
    return [mse](Runner& run, Model& model, const Rows& b) { return mse(run, model, b); };
  };
  auto units = [&](auto model, auto objective) {
    Names names;
    torch::manual_seed(1);
    Trainer trainer{model, objective, names, SGD{.lr = 0.1}, Checkpoint<Full>{}};
    for (int i = 0; i < 2; ++i) trainer.step(batch);
    names.seen->resize(names.seen->size() / 2);
    return std::pair(*names.seen, values_of(model));
  };
  auto [names, expected] = units(sequence(), MSELoss{});
  CHECK(names == std::vector<std::string>{"0", "1", "2", "3"});
  for (auto [same_names, values] :
       {units(sequence(), mse), units(sequence(), erased(sequence()))}) {
    CHECK(same_names == names);
    CHECK(test::same_bits(values, expected));
  }
  auto [one, whole] = units(net(), mse);
  CHECK(one == std::vector<std::string>{""});
  batch = {random({7, 4}), random({7, 4}, 2)};
  auto [inner, trained] = units(shown(), mse);
  CHECK(inner == std::vector<std::string>{"a", "b"});
  auto [same_inner, same_trained] = units(shown(), erased(shown()));
  CHECK(same_inner == inner);
  CHECK(test::same_bits(same_trained, trained));
}

TEST_CASE("objective: named terms are each divided by their own count, then scaled") {
  Rows batch{random({7, 3}), random({7, 5}, 2)};
  torch::manual_seed(0);
  Terms model;
  auto y = model->w(batch.input).detach();
  double fit = (y - batch.target).pow(2).mean().item<double>();
  double size = y.abs().sum().item<double>() / 7;
  for (int microbatches : {1, 3}) {
    Trainer trainer{Terms(std::dynamic_pointer_cast<TermsImpl>(model.ptr())),
                    Accumulate<>{.microbatches = microbatches}, SGD{.lr = 0}};
    Report report = trainer.step(batch);
    CHECK(report.term("fit") == near(fit));
    CHECK(report.term("size") == near(size));
    CHECK(report.loss() == near(fit + 0.25 * size));
    CHECK(report.microbatches == microbatches);
    CHECK(test::worst_relative({report.outputs}, {y}) < 1e-6);  // in row order
    CHECK(contains(test::message_of<Error>([&] { report.term("fat"); }), "no term `fat`"));
    std::ostringstream text;
    text << report;
    CHECK(contains(text.str(), "fit "));
    Evaluation found = trainer.evaluate(std::vector{narrow(batch, 0, 2), narrow(batch, 2, 5)});
    CHECK(found.loss == near(fit + 0.25 * size));
  }
}

TEST_CASE("objective: a term's scale may not change within a step") {
  Rows batch{random({6, 3}), random({6, 5}, 2)};
  double scale = 1;
  auto objective = [&](auto& run, auto& model, const Rows& b) {
    at::Tensor sum = (run(model, b.input) - b.target).pow(2).sum();
    return Loss{.terms = {{"fit", sum, b.target.numel(), scale += 0.5}}};
  };
  Trainer whole{net(), objective};
  whole.step(batch), whole.step(batch);  // it may change between steps
  Trainer cut{net(), objective, Accumulate<2>{}};
  auto what = test::message_of<BadModel>([&] { cut.step(batch); });
  CHECK(contains(what, "the scale of term `fit` is"));
  CHECK(contains(what, "Multiply a factor that changes within a step into the sum"));
}

}  // namespace test::objective
