// Counts and scales of a loss: impossible ones are errors, narrow ones do not overflow, and
// `count(batch)` is compared with the losses in every step that needs it.
#include "test.hpp"

#include <functional>

#include "refused.hpp"

using namespace ikebana;

namespace test::counts {

using bad::Net, bad::Rows, bad::some;

/// The loss and its count as they are reported.
struct Told {
  Count count = 4, known = 4;
  double scale = 1;
  bool narrow = false;
};
struct Late {
  std::shared_ptr<Told> told = std::make_shared<Told>();
  Loss of(const at::Tensor& y) const {
    at::Tensor sum = y.pow(2).sum();
    return {.terms = {{"fit", told->narrow ? sum.to(at::kHalf) : sum, told->count, told->scale}}};
  }
  template <class Run>
  Loss operator()(Run& run, Net& model, const Rows& batch) {
    return of(model->forward(run, batch.input));
  }
};
/// This objective has `count(batch)`, without the model.
struct Known : Late {
  template <class Run>
  Loss operator()(Run& run, Net& model, const Rows& batch) {
    return of(model->forward(run, batch.input));
  }
  Count count(const Rows&) { return told->known; }
};

/// Two terms of equal counts, and any number of known counts.
struct Many {
  std::shared_ptr<std::size_t> counts = std::make_shared<std::size_t>(2);
  template <class Run>
  Loss operator()(Run& run, Net& model, const Rows& batch) {
    at::Tensor y = model->forward(run, batch.input);
    return {.terms = {{"a", y.sum(), 4}, {"b", y.abs().sum(), 4}}};
  }
  std::vector<Count> count(Net&, const Rows&) { return std::vector<Count>(*counts, 4); }
};

/// Makes one step with these values. Returns an empty text if it throws an E with the words and
/// undoes the step.
template <class E, class Objective>
std::string refused(const Told& told, const Words& words, int microbatches) {
  Objective objective;
  Trainer trainer{Net(), objective, SGD{.lr = 0.1}};
  const std::vector<Rows> batches(static_cast<std::size_t>(microbatches), some());
  auto step = [&] {
    *objective.told = told;
    struct Good {
      Told& told;
      ~Good() { told = Told(); }
    } good{*objective.told};
    trainer.step(batches);
  };
  for (int steps = 0; steps < 2; ++steps)  // at the first step, and later
    if (auto wrong = undone<E>(trainer, batches, step, words); !wrong.empty()) return wrong;
  return {};
}

TEST_CASE("count: one that counts no items is an error that names it, wherever it comes from") {
  const std::pair<double, const char*> cases[] = {
      {NAN, "is nan"}, {INFINITY, "is inf"}, {1e300, "is 1e+300"}, {-3, "is -3"}};
  for (const auto& impossible : cases) {
    const double items = impossible.first;
    const char* text = impossible.second;
    CAPTURE(items);
    for (const Count& count : {Count(items), Count(at::full({}, items, at::kDouble))}) {
      WELL(refused<BadBatch, Late>({.count = count}, {"term `fit`: its count", text}, 1));
      WELL(refused<BadBatch, Late>({.count = count}, {"term `fit`: its count", text}, 2));
      WELL(refused<BadBatch, Known>({.count = count}, {"term `fit`: its count", text}, 2));
      WELL(refused<BadBatch, Known>({.known = count}, {"count(batch) returns", text + 3}, 2));
    }
  }
  WELL(refused<BadBatch, Late>({.count = 0}, {"count is 0"}, 2));
  WELL(refused<BadModel, Late>({.count = 1e-300}, {"its count 1e-300", "Float cannot hold"}, 1));
  Late late;
  Trainer trainer{Net(), late};
  late.told->count = -1;
  WELL(told<BadBatch>([&] { trainer.evaluate(std::vector{some()}); }, {"its count is -1"}));
}

TEST_CASE("scale: one that is not finite, or that overflows, is an error before backward") {
  WELL(refused<BadModel, Late>({.scale = NAN}, {"term `fit`: its scale is nan"}, 1));
  WELL(refused<BadModel, Late>({.scale = INFINITY}, {"its scale is inf"}, 2));
  WELL(refused<BadModel, Known>({.scale = -INFINITY}, {"its scale is -inf"}, 2));
  WELL(refused<BadModel, Late>({.scale = 1e300}, {"1e+300", "Float cannot hold"}, 1));
  WELL(refused<BadModel, Late>({.count = 1e8, .narrow = true}, {"1e-08", "Half cannot hold"}, 1));
}

TEST_CASE("count: count(batch) that lies in a later step is an error in that step") {
  WELL(refused<BadModel, Known>({.known = 5}, {"another number", "(10, and 8)"}, 2));
  WELL(refused<BadModel, Known>({.known = at::full({}, 5)}, {"another number"}, 2));
  Known known;
  Trainer trainer{Net(), known};
  const std::vector<Rows> two = {some(), some()};
  trainer.step(two);
  known.told->known = known.told->count = 0.1;  // weights are rounded: 0.1 in Float and in Double
  known.told->known = at::full({}, 0.1);
  CHECK_NOTHROW(trainer.step(two));
  known.told->known = 7;  // one microbatch alone does not need it
  CHECK_NOTHROW((known.told->count = 4, trainer.step(some())));
  CHECK_THROWS_AS(trainer.step(two), BadModel);
}

TEST_CASE("count: narrow tensors do not overflow, neither added up nor as divisors") {
  auto thrice = [](at::Scalar items, at::ScalarType type) {
    Count count(at::full({}, items, type));
    for (int i = 0; i < 2; ++i) count += Count(at::full({}, items, type));
    return count.value();
  };
  CHECK(thrice(200, at::kByte) == 600);
  CHECK(thrice(100, at::kChar) == 300);
  CHECK(thrice(30000, at::kShort) == 90000);
  CHECK(thrice(2e9, at::kInt) == 6e9);
  CHECK(thrice(1, at::kBool) == 3);
  CHECK(thrice(32768, at::kHalf) == 98304);
  CHECK(thrice(257, at::kFloat) == 771);
  CHECK(thrice(256, at::kBFloat16) == 768);
  const Count many = at::full({}, 70000, at::kLong);
  at::Tensor sum = at::full({1}, 100, at::kHalf);
  CHECK(many.divide(sum).item<double>() == doctest::Approx(100. / 70000));
  at::Tensor seed = many.gradient(sum, 1);
  CHECK(seed.item<double>() == doctest::Approx(1. / 70000).epsilon(1e-2));
  CHECK((seed.scalar_type() == at::kHalf && seed.sizes() == sum.sizes()));
  for (at::Tensor none : {at::Tensor(), at::ones({2}), at::ones({}, at::kComplexFloat)})
    CHECK_THROWS_AS(Count{none}, BadBatch);
}

TEST_CASE("count: count(batch) returns one number per term, or one for all") {
  Many many;
  Trainer trainer{Net(), many, SGD{.lr = 0.1}};
  const std::vector<Rows> two = {some(), some()};
  for (std::size_t counts : {0, 1, 2}) CHECK_NOTHROW((*many.counts = counts, trainer.step(two)));
  *many.counts = 3;
  WELL(told<BadModel>([&] { trainer.step(two); }, {"returns 3 counts", "another number of terms"}));
}

TEST_CASE("terms: another number of them than in the microbatch or batch before is an error") {
  int first = 2, calls = 0;
  auto varying = [&](auto& run, Net& model, const Rows& batch) {
    at::Tensor y = model->forward(run, batch.input);
    Loss loss{.terms = {{"a", y.sum(), 4}}};
    if ((calls++ % 2 == 0) == (first == 2)) loss.terms.push_back({"b", y.abs().sum(), 4});
    return loss;
  };
  Trainer trainer{Net(), varying};
  const std::vector two = {some(), some()};
  auto step = [&] { trainer.step(two); };
  WELL(told<BadModel>(step, {"it has 1 terms and had 2", "the same terms"}));
  WELL(
      told<BadModel>([&] { trainer.evaluate(two); }, {"has 1 terms", "had 2 in the batch before"}));
  first = 1;
  WELL(told<BadModel>(step, {"it has 2 terms and had 1", "the same terms"}));
  CHECK(trainer.steps() == 0);
}

TEST_CASE("counts: one that requires a gradient is an error, since none passes through it") {
  const at::Tensor gate = at::ones({3}).requires_grad_();
  const auto refused = [&](const std::function<void()>& f) {
    return told<BadModel>(f, {"count: it requires a gradient", "count.detach()", "sum / divisor"});
  };
  WELL(refused([&] { Count(gate.sum()); }));
  WELL(refused([&] { Count(gate.to(at::kHalf).sum()); }));
  WELL(refused([&] { Loss::mean(gate.mean(), gate.sum()); }));
  CHECK(Count(gate.sum().detach()).value() == 3);
  const at::NoGradGuard no_grad;
  CHECK(Count(gate.sum()).value() == 3);
}

TEST_CASE("counts: in a step one that requires a gradient changes nothing") {
  bool detaches = false;
  auto weighted = [&](auto& run, Net& model, const Rows& batch) -> Loss {
    const at::Tensor y = model->forward(run, batch.input), gate = at::sigmoid(y);
    const at::Tensor count = detaches ? gate.sum().detach() : gate.sum();
    return {(gate * y).sum(), count};
  };
  Trainer trainer{Net(), weighted, SGD{.lr = 0.1}};
  WELL(told<BadModel>([&] { trainer.step(some()); }, {"count: it requires a gradient"}));
  CHECK(trainer.steps() == 0);
  detaches = true;
  trainer.step(some());
  CHECK(trainer.steps() == 1);
}

TEST_CASE("counts: a weight of an objective that requires a gradient is an error") {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Rows rows{at::randn({4, 3}), at::rand({4, 3})};
  const std::pair classes{at::randn({4, 3}), at::zeros({4}, at::kLong)};
  auto refused = [&](auto objective, const auto& batch) {
    torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::Sigmoid());
    Trainer trainer{net, objective, SGD{.lr = 0.1}};
    return told<BadValue>([&] { trainer.step(batch); },
                          {"such as `weight`, requires a gradient", "weight.detach()"});
  };
  const std::pair numbers{rows.input, rows.target};
  WELL(refused(BCELoss{.weight = weight}, numbers));
  WELL(refused(BCEWithLogitsLoss{.weight = weight}, numbers));
  WELL(refused(BCEWithLogitsLoss{.pos_weight = weight}, numbers));
  WELL(refused(CrossEntropyLoss{.weight = weight}, classes));
  WELL(refused(NLLLoss{.weight = weight}, classes));
}

}  // namespace test::counts
