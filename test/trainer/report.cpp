// Tests the contents of a report and of a metric.
#include "test.hpp"

#include <sstream>

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;

namespace test::report {

using Rows = Pairs;

TEST_CASE("report: it has what policies request and nothing else, and keeps its own values") {
  Rows batch{random({6, 3}), random({6, 5}, 2)};
  Trainer bare{linear(), MSELoss{}};
  Report report = bare.step(batch);
  CHECK(!report.grad_norm());
  CHECK(!report.peak_bytes);
  CHECK(!report.skipped());
  CHECK(!report.outputs.defined());
  CHECK(report.count() == 30);
  CHECK(report.step == 0);
  CHECK(report.microbatches == 1);
  CHECK(report.learning_rate == 1e-3);
  CHECK(report.seconds > 0);
  std::ostringstream text;
  text << report;
  CHECK(contains(text.str(), "step 0  loss "));
  CHECK(!contains(text.str(), "grad norm"));
  CHECK(!contains(text.str(), "peak"));

  Trainer rich{linear(), MSELoss{.outputs = true}, ClipGradNorm{}, Observe<Memory>{},
               Accumulate<2>{}};
  Report first = rich.step(batch);
  double loss = first.loss(), norm = *first.grad_norm();
  auto outputs = first.outputs.clone();
  for (int i = 0; i < 3; ++i) rich.step(batch);
  CHECK(first.loss() == loss);
  CHECK(*first.grad_norm() == norm);
  CHECK(test::same_bits(first.outputs, outputs));
  CHECK(outputs.sizes() == at::IntArrayRef({6, 5}));
  CHECK(!outputs.requires_grad());
  CHECK(*first.peak_bytes > 0);
  CHECK(rich.step(batch).loss() < loss);
  std::ostringstream more;
  more << first;
  CHECK(contains(more.str(), "grad norm"));
  CHECK(contains(more.str(), "peak"));
}

TEST_CASE("report: a loss that is not finite is an error when read, unless a loss scale skips") {
  Report report;
  report.value.parts.push_back({{"", at::scalar_tensor(NAN), 1}});
  auto message = test::message_of<NonFinite>([&] { report.loss(); });
  CHECK(contains(message, "the loss is nan, and the step made its update"));
  report.found_inf = at::ones({});
  message = test::message_of<NonFinite>([&] { report.loss(); });
  CHECK(contains(message, "the loss is nan; the parameters were not updated"));
  std::ostringstream text;
  text << report;  // printing shows it
  CHECK(contains(text.str(), "loss nan"));
  report.must_be_finite = false;
  CHECK(std::isnan(report.loss()));
}

TEST_CASE("report: a sum of one element may have any dimensions and any dtype") {
  Rows batch{random({6, 3}), random({6, 5}, 2)};
  std::vector<std::int64_t> dimensions;
  auto type = at::kFloat;
  auto objective = [&](auto& run, torch::nn::Linear& model, const Rows& rows) {
    at::Tensor sum = (run(model, rows.input) - rows.target).pow(2).sum();
    return Loss{sum.to(type).view(dimensions), rows.target.numel()};
  };
  auto values_after = [&](auto trainer, double& loss) {
    loss = trainer.step(batch).loss();
    trainer.step(batch);
    return values_of(trainer.model());
  };
  SGD steep{.lr = 0.5};
  double expected, loss;
  auto values = values_after(Trainer{linear(), MSELoss{}, steep, Accumulate<2>{}}, expected);
  const std::vector<std::vector<std::int64_t>> shapes = {{}, {1}, {1, 1, 1}};
  for (auto wide : {at::kFloat, at::kDouble})
    for (const auto& shape : shapes) {
      type = wide, dimensions = shape;
      Trainer trainer{linear(), objective, steep, Accumulate<2>{}};
      CHECK(worst_relative(values_after(std::move(trainer), loss), values) < 1e-6);
      CHECK(loss == doctest::Approx(expected));
    }
}

TEST_CASE("report: peak bytes are those of this step, the model and the optimizer included") {
  torch::nn::Linear model(512, 512);  // not counted, since no counter exists yet
  const std::int64_t parameters = (512 + 1) * 512 * 4;
  Trainer trainer{model, MSELoss{}, Observe<Memory>{}};
  std::int64_t others = bridge::MemoryCounter(at::kCPU).now();
  if (bridge::counted(model->weight)) others -= parameters;
  Rows batch{random({4, 512}), random({4, 512}, 2)};
  trainer.step(batch);
  at::zeros({1 << 24});  // freed between two steps
  std::int64_t peak = *trainer.step(batch).peak_bytes - others;
  CHECK(peak >= 4 * parameters);  // with gradients and two moments
  CHECK(peak < 4 * parameters + parameters / 8);
}

TEST_CASE("metric: Accuracy finds classes in dimension 1 or last, and skips ignored targets") {
  auto accuracy = [](const at::Tensor& outputs, const at::Tensor& target,
                     std::int64_t ignore = -100, std::optional<std::int64_t> dim = {}) {
    Accuracy metric{.ignore_index = ignore, .dim = dim};
    metric.update(Rows{outputs, target}, outputs);
    return metric.value();
  };
  auto target = at::arange(12).view({3, 4}) % 4;
  auto more = at::one_hot(target, 7).to(at::kFloat);
  CHECK(accuracy(more, target) == 1);
  CHECK(accuracy(more.transpose(1, 2), target) == 1);
  auto wrong = target.clone();
  wrong[0].fill_(0);
  CHECK(accuracy(more, wrong) == 9.0 / 12);
  CHECK(accuracy(more, wrong, 0) == 1);
  CHECK(accuracy(at::eye(4), at::arange(4)) == 1);
  CHECK(contains(test::message_of<Error>([&] { accuracy(more, target * 0, 0); }), "no target"));

  auto turned = (target + at::arange(3).view({3, 1})) % 4;
  auto square = at::one_hot(turned, 4).to(at::kFloat);  // (3, 4, 4): could be either
  auto told = message_of<BadBatch>([&] { accuracy(square, turned); });
  CHECK(contains(told, "[3, 4, 4] and targets of shape [3, 4]"));
  CHECK(contains(told, "dimension 1 or 2"));
  CHECK(contains(told, "Accuracy{.dim = 1}"));
  for (std::int64_t last : {2, -1}) CHECK(accuracy(square, turned, -100, last) == 1);
  CHECK(accuracy(square.transpose(1, 2), turned, -100, 1) == 1);
  CHECK(accuracy(square, turned, -100, 1) < 1);
  told = message_of<BadBatch>([&] { accuracy(at::ones({4, 1}), at::zeros({4})); });
  CHECK(contains(told, "[4, 1] have one class, which is always the largest"));
  for (std::int64_t none : {1, 3, -4})
    CHECK(
        contains(message_of<BadBatch>([&] { accuracy(more, target, -100, none); }), "do not fit"));
}

TEST_CASE("objective: CrossEntropyLoss compares targets of Byte with ignore_index as numbers") {
  namespace nn = torch::nn;
  nn::Sequential model(nn::Linear(3, 256));
  const at::Tensor x = at::linspace(-1, 1, 15).view({5, 3}),
                   target = at::tensor({156, 156, 3, 156, 0}, at::kByte);
  const at::Tensor weight = at::linspace(1, 2, 256);
  const std::vector pairs{std::pair(x, target)};
  for (std::int64_t ignore : {-100, 156})
    for (const at::Tensor& w : {at::Tensor(), weight}) {
      CAPTURE(ignore);
      Trainer trainer{model, CrossEntropyLoss{.ignore_index = ignore, .weight = w}};
      const double mean =
          at::cross_entropy_loss(model->forward(x), target, w, 1, ignore).item<double>();
      const Evaluation found = trainer.evaluate(pairs, Accuracy{.ignore_index = ignore});
      CHECK(found.loss == doctest::Approx(mean).epsilon(1e-5));
      const at::Tensor kept = target.to(at::kLong) != ignore;
      const at::Tensor right = (model->forward(x).argmax(1) == target) & kept;
      CHECK(found["accuracy"] == right.sum().item<double>() / kept.sum().item<double>());
    }
  const auto none = std::pair(x, at::ones({5, 0}));  // probabilities of no classes
  CHECK_THROWS_AS((Trainer{model, CrossEntropyLoss{}}.step(none)), BadBatch);
}

}  // namespace test::report
