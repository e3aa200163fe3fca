// Tests a mean that a loss returns. Loss::mean makes a sum of it, and a loss that returns it as its
// sum warns, once, if that is certain.
#include "test.hpp"

#include "compare.hpp"
#include "warnings.hpp"

using namespace ikebana;

namespace test::means {

constexpr auto sum = at::Reduction::Sum;
namespace F = torch::nn::functional;

struct Batch {
  at::Tensor input, target;
};
Batch some(std::int64_t rows = 6) { return {random({rows, 3}), random({rows, 5}, 2)}; }
auto near(double value) { return doctest::Approx(value).epsilon(1e-6); }

TEST_CASE("means: Loss::mean is the sum of its items, whatever the microbatches") {
  const Batch batch = some(7);
  auto by_mean = [](auto& run, auto& model, const Batch& b) {
    const at::Tensor y = run(model, b.input);
    return Loss::mean(at::mse_loss(y, b.target), b.target.numel(), y);
  };
  auto by_tensor = [](auto& run, auto& model, const Batch& b) {
    Loss loss =
        Loss::mean(F::mse_loss(run(model, b.input), b.target), at::ones_like(b.target).sum());
    loss.terms = {{"size", model->weight.square().sum(), 1, 0}};
    return loss;
  };
  const at::Tensor y = linear()(batch.input);
  const double expected = at::mse_loss(y, batch.target).item<double>();
  Warnings warnings;
  auto check = [&](auto objective) {
    Trainer trainer{linear(), objective, SGD{.lr = 0.1}, Accumulate<>{.microbatches = 3}};
    Trainer sums{linear(), MSELoss{}, SGD{.lr = 0.1}};
    Report report = trainer.step(batch);
    CHECK(report.loss() == near(expected));
    sums.step(batch);
    CHECK(worst_relative(values_of(trainer.model()), values_of(sums.model())) < 1e-6);
    return report;
  };
  CHECK(worst_relative({check(by_mean).outputs}, {y}) < 1e-6);
  Trainer trainer{linear(), by_tensor, SGD{.lr = 0.1}};
  CHECK(trainer.step(batch).loss() == near(expected));
  CHECK(warnings.all.empty());
  const at::Tensor half = at::ones({}, at::kHalf);
  CHECK(Loss::mean(half, 70000).sum.item<double>() == 70000);  // infinite in Half
}

TEST_CASE("means: Loss::mean refuses what is no mean, and a mean of nothing") {
  const at::Tensor one = at::ones({});
  CHECK(told<BadModel>([] { Loss::mean(at::ones({3}), 3); }, {"Loss::mean", "shape [3]"}) == "");
  CHECK(told<BadModel>([] { Loss::mean({}, 3); }, {"an undefined tensor"}) == "");
  CHECK(told<BadBatch>([&] { Loss::mean(one, 0); }, {"n is 0", "Loss{sum, count}"}) == "");
  CHECK(told<BadBatch>([&] { Loss::mean(one, at::zeros({})); }, {"n is 0"}) == "");
  CHECK(told<BadBatch>([&] { Loss::mean(one, Count()); }, {"n is 0"}) == "");
  CHECK(told<BadBatch>([&] { Loss::mean(one, -2); }, {"n is -2"}) == "");
  CHECK(told<BadBatch>([&] { Loss::mean(one, at::ones({2})); }, {"count", "[2]"}) == "");
}

TEST_CASE("means: a loss without a count is an error that says what to return") {
  auto none = [](auto& run, auto& model, const Batch& b) {
    return Loss{(run(model, b.input) - b.target).square().sum()};
  };
  auto term = [](auto& run, auto& model, const Batch& b) {
    return Loss{.terms = {{"fit", run(model, b.input).sum(), Count()}}};
  };
  Trainer trainer{linear(), none};
  const Words words{"its count is missing", "Loss{sum, count}", "Loss::mean(mean, n)"};
  CHECK(told<BadModel>([&] { trainer.step(some()); }, words) == "");
  CHECK(told<BadModel>([&] { trainer.evaluate(std::vector{some()}); }, words) == "");
  Trainer named{linear(), term};
  CHECK(told<BadModel>([&] { named.step(some()); }, {"term `fit`: its count is missing"}) == "");
}

/// Returns the warnings of three steps and an evaluation.
template <class F>
std::vector<std::string> warned(F loss) {
  auto objective = [loss](auto& run, auto& model, const Batch& b) {
    return Loss(loss(at::Tensor(run(model, b.input)), b.target));
  };
  Warnings warnings;
  Trainer trainer{linear(), objective, SGD{.lr = 1e-3}, Accumulate<2>{}};
  trainer.evaluate(std::vector{some()});
  for (int i = 0; i < 3; ++i) trainer.step(some());
  return warnings.all;
}

TEST_CASE("means: a mean that is returned as a sum warns, once per trainer") {
  using T = at::Tensor;
  auto once = [](const std::vector<std::string>& all, const char* by) {
    return all.size() == 1 && contains(all[0], by) && contains(all[0], "Loss::mean(mean, n)");
  };
  CHECK(once(warned([](T y, T t) { return Loss{F::cross_entropy(y, t.argmax(1)), 3}; }),
             "aten::cross_entropy_loss, and its count is 3"));
  CHECK(once(warned([](T y, T t) { return Loss{F::mse_loss(y, t), t.size(0)}; }), "mse_loss"));
  CHECK(once(warned([](T y, T t) { return Loss{at::huber_loss(y, t), t.numel()}; }), "huber"));
  CHECK(once(warned([](T y, T t) { return Loss{at::kl_div(y.log_softmax(1), t.sigmoid()), 3}; }),
             "kl_div"));
  CHECK(once(warned([](T y, T t) { return Loss{(y - t).square().mean(), t.numel()}; }),
             "aten::mean, and its count is 15"));
  CHECK(once(warned([](T y, T t) { return Loss{.terms = {{"fit", F::l1_loss(y, t), t.numel()}}}; }),
             "term `fit`: its sum is a mean, of aten::l1_loss"));
}

TEST_CASE("means: what is or may be a sum does not warn") {
  using T = at::Tensor;
  CHECK(warned([](T y, T t) {
          return Loss{at::cross_entropy_loss(y, t.argmax(1), {}, sum), 3};
        }).empty());
  CHECK(warned([](T y, T t) { return Loss{at::mse_loss(y, t, sum), t.numel()}; }).empty());
  CHECK(warned([](T y, T t) { return Loss{at::mse_loss(y, t), 1}; }).empty());  // one mean
  CHECK(warned([](T y, T t) {  // a sum over rows of means over columns
          return Loss{(y - t).square().sum(0).mean(), t.size(0)};
        })
            .empty());
  CHECK(warned([](T y, T t) { return Loss{at::mse_loss(y, t) * t.numel(), t.numel()}; }).empty());
  CHECK(
      warned([](T y, T t) { return Loss{at::mse_loss(y, t, sum) + y.mean(), t.numel()}; }).empty());
  CHECK(warned([](T y, T t) {  // the mean of one number, which is its sum
          return Loss{at::mse_loss(y.sum(), t.sum()), t.size(0)};
        })
            .empty());
}

}  // namespace test::means
