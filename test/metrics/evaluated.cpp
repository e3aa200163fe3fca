// Tests metrics in evaluations and in fit: names, several outputs and targets, and what is an
// error.
#include "trainer/compare.hpp"

#include <ikebana/metrics.hpp>

#include "state/folder.hpp"

using namespace ikebana;

namespace test::metrics_evaluated {

namespace {

/// A batch with two targets, and a model whose outputs stack two heads.
struct Digits {
  at::Tensor input, digit, is_even;
};
struct TwoHeadsImpl : torch::nn::Module {
  torch::nn::Linear both = register_module("both", torch::nn::Linear(4, 4));
  template <class Run>
  Loss loss(Run&, const Digits& batch) {
    const at::Tensor y = both(batch.input);
    const at::Tensor digits = y.narrow(1, 0, 3), even = y.select(1, 3);
    const at::Tensor sum =
        at::cross_entropy_loss(digits, batch.digit, {}, at::Reduction::Sum) +
        at::binary_cross_entropy_with_logits(even, batch.is_even, {}, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.digit.numel(), .outputs = y};
  }
};
TORCH_MODULE(TwoHeads);

std::vector<Digits> digits(int n) {
  std::vector<Digits> all;
  for (int i = 0; i < n; ++i) {
    const at::Tensor digit = (at::arange(8) + i) % 3;
    all.push_back({random({8, 4}, i), digit, (digit % 2 == 0).to(at::kFloat)});
  }
  return all;
}
auto trainer_of_two() {
  torch::manual_seed(0);
  return Trainer{TwoHeads(), AdamW{.lr = 1e-2}};
}
/// Metrics of the first and of the second head.
auto digit_metric() {
  return OutputTransform{RecallScore<Multiclass>{.per_class = true},
                         [](const Digits& batch, const at::Tensor& outputs) {
                           return std::pair{outputs.narrow(1, 0, 3), batch.digit};
                         }};
}
auto even_metric() {
  return OutputTransform{AUROC<Binary>{.name = "even"},
                         [](const Digits& batch, const at::Tensor& outputs) {
                           return std::pair{outputs.select(1, 3), batch.is_even};
                         }};
}

using Batch = std::pair<at::Tensor, at::Tensor>;
/// Returns the text of the error of type E, or what is wrong with it, of an update and the value.
template <class E, class M>
std::string wrong(M metric, const at::Tensor& outputs, const at::Tensor& target,
                  const Words& words) {
  auto read = [&] {
    metric.update(Batch{outputs, target}, outputs);
    if constexpr (requires { metric.value(); }) metric.value();
    else metric.values();
  };
  return told<E>(read, words);
}
at::Tensor ones(at::IntArrayRef sizes) { return at::ones(sizes); }
at::Tensor longs(at::IntArrayRef sizes, std::int64_t value = 1) {
  return at::full(sizes, value, at::kLong);
}

}  // namespace

TEST_CASE("metrics: two outputs and two targets have a metric each, named by number") {
  auto trainer = trainer_of_two();
  const auto data = digits(3);
  const Evaluation found = trainer.evaluate(data, digit_metric(), even_metric());
  at::Tensor outputs, digit, even;
  {
    std::vector<at::Tensor> all, first, second;
    for (const Digits& batch : data)
      all.push_back(trainer.predict(batch)), first.push_back(batch.digit),
          second.push_back(batch.is_even);
    outputs = at::cat(all), digit = at::cat(first), even = at::cat(second);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : found.metrics) names.push_back(name);
  CHECK(names == std::vector<std::string>{"recall", "recall.0", "recall.1", "recall.2", "even"});
  const at::Tensor predicted = outputs.narrow(1, 0, 3).argmax(1);
  double mean = 0;
  for (std::int64_t c = 0; c < 3; ++c) {
    const at::Tensor own = digit == c;
    const double recall = (own & (predicted == c)).sum().item<double>() / own.sum().item<double>();
    CHECK(found["recall." + std::to_string(c)] == recall);
    mean += recall / 3;
  }
  CHECK(found["recall"] == doctest::Approx(mean).epsilon(1e-12));
  const at::Tensor x = outputs.select(1, 3), pos = x.index({even == 1}), neg = x.index({even == 0});
  const at::Tensor pairs = pos.unsqueeze(1) - neg.unsqueeze(0);
  const double area = ((pairs > 0).to(at::kDouble) + 0.5 * (pairs == 0)).mean().item<double>();
  CHECK(found["even"] == doctest::Approx(area).epsilon(1e-12));
}

TEST_CASE("metrics: fit chooses by a number of a metric, and its history resumes") {
  auto data = digits(4), valid = digits(2);
  const Folder folder;
  FitOptions<Digits> options{.epochs = 2,
                             .validate = valid,
                             .metrics = {even_metric(), digit_metric()},
                             .progress = false,
                             .save_to = folder.path,
                             .keep_best = KeepBest{.metric = "recall.1", .mode = KeepBest::max},
                             .resume = true};
  const History first = trainer_of_two().fit(data, options);
  options.epochs = 3;
  const History resumed = trainer_of_two().fit(data, options);
  REQUIRE(resumed.size() == 3);
  for (std::size_t e = 0; e < 2; ++e)
    CHECK(resumed[e].validation->metrics == first[e].validation->metrics);
  CHECK(std::filesystem::exists(folder / "best.safetensors"));
  options.keep_best->metric = "recal.1";
  CHECK(told<BadValue>([&] { trainer_of_two().fit(data, options); },
                       {"`recal.1`", "not among metrics"}) == "");
  options.keep_best.reset(), options.metrics = {digit_metric()};
  CHECK(told<BadState>([&] { trainer_of_two().fit(data, options); }, {"metrics.even"}) == "");
}

TEST_CASE("metrics: an OutputTransform begins again as it was given") {
  auto metric = digit_metric();
  const Digits batch = digits(1)[0];
  metric.update(batch, random({8, 4}, 3));
  const double once = metric.value();
  metric.update(batch, random({8, 4}, 4));
  CHECK(metric.value() != once);
  metric.reset();
  metric.update(batch, random({8, 4}, 3));
  CHECK(metric.value() == once);
}

TEST_CASE("metrics: names that collide, and what has no number or state, are errors") {
  const auto data = digits(1);
  auto trainer = trainer_of_two();
  auto of_even = [](const Digits& b, const at::Tensor& y) {
    return std::pair{y.select(1, 3), b.is_even};
  };
  CHECK(told<BadValue>(
            [&] {
              trainer.evaluate(data, digit_metric(),
                               OutputTransform{MeanAbsoluteError{.name = "recall.1"}, of_even});
            },
            {"`recall.1`", "two numbers"}) == "");
  const Metric<Batch> cells = ConfusionMatrix<Binary>{};
  cells.update({random({4}), longs({4})}, random({4}));
  CHECK(told<Error>([&] { cells.value(); }, {"`confusion_matrix`", "Read `values()`"}) == "");
  struct Last {
    std::string name = "last";
    void update(const Batch&, const at::Tensor&) {}
    double value() const { return 0; }
  };
  StateDict dict;
  Archive archive(dict, Archive::Mode::Save);
  CHECK(told<Error>([&] { Metric<Batch>(Last{}).state(archive); }, {"`last`", "`state("}) == "");
}

TEST_CASE("metrics: shapes and dtypes that do not fit are errors") {
  using F1 = F1Score<Multiclass>;
  CHECK(wrong<BadBatch>(F1{}, ones({4, 3}), longs({5}), {"`f1`", "[4, 3]", "[5]"}) == "");
  CHECK(wrong<BadBatch>(F1{}, ones({4, 3, 3}), longs({4, 3}), {"Multiclass{.dim = 1}"}) == "");
  CHECK(wrong<BadBatch>(F1{}, ones({4, 1}), longs({4}), {"one class", "Binary"}) == "");
  CHECK(wrong<BadBatch>(F1{}, ones({4, 3}), ones({4}), {"Float", "class indices"}) == "");
  CHECK(wrong<BadBatch>(F1{}, longs({4}), longs({4}), {"`f1`", ".num_classes"}) == "");
  CHECK(wrong<BadBatch>(F1{.task = {.num_classes = 4}}, ones({4, 3}), longs({4}), {"is 4"}) == "");
  CHECK(wrong<BadBatch>(AUROC<Multiclass>{}, longs({4}), longs({4}), {"Long", "no scores"}) == "");
  CHECK(wrong<BadBatch>(F1Score<Binary>{}, ones({4, 2}), longs({4}), {"Multiclass"}) == "");
  CHECK(wrong<BadBatch>(F1Score<Multilabel>{}, ones({4}), longs({4}), {"(N, labels"}) == "");
  CHECK(wrong<BadBatch>(Perplexity{}, ones({4, 3, 3}), longs({4, 3}), {"Perplexity{.dim"}) == "");
  CHECK(wrong<BadBatch>(MeanSquaredError{}, ones({4, 1}), ones({4}), {"`mse`", "squeeze"}) == "");
  CHECK(wrong<BadBatch>(R2Score{}, ones({}), ones({}), {"`r2`", "(N)"}) == "");
  for (std::int64_t k : {0, 3})
    CHECK(wrong<BadValue>(TopKAccuracy{.k = k}, ones({4, 3}), longs({4}), {"3 classes"}) == "");
  for (double t : {0.0, 1.0, 2.0})
    CHECK(wrong<BadValue>(F1Score<Binary>{.task = {.threshold = t}}, ones({4}), longs({4}),
                          {"threshold is"}) == "");
  for (std::int64_t bins : {-1, 1})
    CHECK(wrong<BadValue>(AUROC<Binary>{.thresholds = bins}, ones({4}), longs({4}),
                          {"thresholds is"}) == "");
  F1 metric;
  metric.update(Batch{{}, longs({4})}, ones({4, 3}));
  CHECK(wrong<BadBatch>(metric, ones({4, 5}), longs({4}), {"5 columns", "had 3"}) == "");
  AUROC<Multiclass> curve;
  curve.update(Batch{{}, longs({4})}, ones({4, 3}));
  CHECK(wrong<BadBatch>(curve, ones({4, 5}), longs({4}), {"5 columns", "had 3"}) == "");
}

TEST_CASE("metrics: impossible targets and NaN are errors, if they count") {
  const at::Tensor nan = at::full({4, 3}, std::nan(""));
  auto refuses = [&]<class M>(const M& metric) {
    CAPTURE(metric.name);
    CHECK(wrong<BadBatch>(metric, ones({4, 3}), longs({4}, 3), {"4 targets"}) == "");
    CHECK(wrong<BadBatch>(metric, ones({4, 3}), longs({4}, -1), {"4 targets"}) == "");
    CHECK(wrong<NonFinite>(metric, nan, longs({4}), {"4 outputs are NaN"}) == "");
    M ignores = metric;
    at::Tensor target = longs({4});
    target[0] = ignores.ignore_index = 7;
    at::Tensor outputs = random({4, 3});
    outputs[0].fill_(std::nan(""));
    CHECK_NOTHROW(ignores.update(Batch{{}, target}, outputs));
    CHECK(wrong<Error>(metric, ones({4, 3}), longs({4}, -100), {"no target to count"}) == "");
  };
  refuses(F1Score<Multiclass>{}), refuses(ConfusionMatrix<Multiclass>{});
  refuses(AUROC<Multiclass>{}), refuses(TopKAccuracy{.k = 2}), refuses(Perplexity{});
  CHECK(wrong<BadBatch>(F1Score<Binary>{}, ones({4}), ones({4}) * 0.9, {"4 targets"}) == "");
  CHECK(wrong<NonFinite>(AUROC<Multilabel>{}, nan, longs({4, 3}), {"12 outputs"}) == "");
  CHECK(wrong<BadBatch>(MeanIoU<Multiclass>{.task = {.num_classes = 3}}, longs({4}, 3), longs({4}),
                        {"predicted classes"}) == "");
  CHECK(wrong<NonFinite>(MeanAbsoluteError{}, nan, ones({4, 3}), {"`mae`", "NaN"}) == "");
  CHECK(wrong<NonFinite>(R2Score{}, nan, random({4, 3}), {"`r2`", "NaN"}) == "");
  CHECK(told<Error>([] { MeanSquaredError{.squared = false}.value(); }, {"`rmse`"}) == "");
  CHECK(told<Error>([] { R2Score{}.value(); }, {"no target"}) == "");
  CHECK(told<Error>([] { AveragePrecision<Binary>{}.value(); }, {"no target"}) == "");
}

TEST_CASE("metrics: probabilities instead of logits are an error, and logits instead of them") {
  const at::Tensor target = at::arange(40) % 2, p = at::linspace(0, 1, 40), x = random({40, 2});
  CHECK(wrong<Error>(F1Score<Binary>{}, p, target, {"`f1`", ".from_logits = false"}) == "");
  CHECK(wrong<Error>(AUROC<Multiclass>{}, x.softmax(1), target, {".from_logits = false"}) == "");
  CHECK(wrong<Error>(Perplexity{}, x.softmax(1), target, {"`perplexity`", "Give it logits"}) == "");
  CHECK(wrong<Error>(AUROC<Multilabel>{.task = {.from_logits = false}}, x,
                     at::stack({target, target}, 1), {".from_logits = true"}) == "");
  F1Score<Binary> few;  // so few logits may lie in [0, 1]
  few.update(Batch{{}, target.narrow(0, 0, 31)}, p.narrow(0, 0, 31));
  CHECK_NOTHROW(few.value());
  Perplexity logs, logits;
  logs.update(Batch{{}, target}, x.log_softmax(1)), logits.update(Batch{{}, target}, x);
  CHECK(logs.value() == doctest::Approx(logits.value()).epsilon(1e-6));
}

TEST_CASE("metrics: what the data do not define is NaN, and averages leave it out") {
  AUROC<Binary> curve;
  curve.update(Batch{{}, longs({4}, 0)}, random({4}));
  CHECK(std::isnan(curve.value()));
  F1Score<Binary> f1;
  f1.update(Batch{{}, longs({4}, 0)}, -ones({4}));
  CHECK(std::isnan(f1.value()));
  f1.update(Batch{{}, longs({4}, 0)}, ones({4}));
  CHECK(f1.value() == 0);  // now the class occurs
  R2Score r2;
  r2.update(Batch{{}, at::full({3}, 0.1, at::kDouble)}, random({3}));
  CHECK(std::isnan(r2.value()));
}

TEST_CASE("metrics: targets of Byte, Bool and Float are as those of Long, and -100 is ignored") {
  const at::Tensor x = random({6, 3}), target = at::arange(6) % 3, y = random({6});
  F1Score<Multiclass> a, b;
  a.update(Batch{{}, target}, x), b.update(Batch{{}, target.to(at::kByte)}, x);
  CHECK(a.value() == b.value());
  for (auto dtype : {at::kByte, at::kBool, at::kFloat, at::kBFloat16}) {
    AUROC<Binary> p, q;
    p.update(Batch{{}, target % 2}, y), q.update(Batch{{}, (target % 2).to(dtype)}, y);
    CHECK(p.value() == q.value());
  }
}

TEST_CASE("metrics: counts and sums do not lose what FP32 would lose") {
  MeanAbsoluteError mae;
  MeanSquaredError mse;
  const Batch batch{{}, at::zeros({1 << 12})};
  const at::Tensor outputs = at::full({1 << 12}, 0.1f);
  for (int i = 0; i < 1 << 13; ++i)  // 2^25 items
    mae.update(batch, outputs), mse.update(batch, outputs);
  CHECK(mae.value() == doctest::Approx(0.1f).epsilon(1e-12));
  CHECK(mse.value() == doctest::Approx(double(0.1f) * double(0.1f)).epsilon(1e-12));
}

}  // namespace test::metrics_evaluated
