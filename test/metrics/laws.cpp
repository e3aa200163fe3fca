// Tests what every metric keeps to: any cut into batches, a saved state, copies, 16 bits, ranks.
#include "trainer/compare.hpp"

#include <ikebana/metrics.hpp>

#include "counting.hpp"
#include "ranks/wire.hpp"

using namespace ikebana;

namespace test::metrics {

namespace {

using Batch = std::pair<at::Tensor, at::Tensor>;  // outputs and targets
using Metrics = std::vector<Metric<Batch>>;

/// Data of one task, and metrics that take it.
struct Kind {
  Batch all;
  Metrics metrics;
  Metrics keeping = {};  // which copy each batch to the host
};

Kind classes() {
  at::Tensor target = at::randint(5, {24}, at::kLong);
  target[3] = -100;
  return {{at::randn({24, 5}), target},
          {Accuracy{}, TopKAccuracy{.k = 2}, Perplexity{},
           F1Score<Multiclass>{.average = Average::Weighted, .per_class = true},
           ConfusionMatrix<Multiclass>{},
           AUROC<Multiclass>{.name = "binned", .thresholds = 7, .per_class = true}},
          {AUROC<Multiclass>{.per_class = true}, AveragePrecision<Multiclass>{}}};
}
Kind one_label() {
  return {{at::randn({24}), at::randint(2, {24}, at::kLong)},
          {PrecisionScore<Binary>{}, MeanIoU<Binary>{}, ConfusionMatrix<Binary>{},
           AveragePrecision<Binary>{.name = "binned", .thresholds = 5}},
          {AUROC<Binary>{}}};
}
Kind labels() {
  at::Tensor target = at::randint(2, {24, 3}, at::kFloat);
  target[3][1] = -100;
  return {{at::randn({24, 3}), target},
          {RecallScore<Multilabel>{.average = Average::Micro, .per_class = true}},
          {AveragePrecision<Multilabel>{.per_class = true}}};
}
Kind numbers() {
  return {{at::randn({24, 2}), at::randn({24, 2})},
          {MeanAbsoluteError{}, MeanSquaredError{}, MeanSquaredError{.squared = false},
           R2Score{.per_output = true},
           OutputTransform{MeanAbsoluteError{.name = "first"},
                           [](const Batch& batch, const at::Tensor& outputs) {
                             return std::pair{outputs.select(1, 0), batch.second.select(1, 0)};
                           }}}};
}
std::vector<Kind> kinds() {
  torch::manual_seed(0);
  return {classes(), one_label(), labels(), numbers()};
}

Batch rows(const Batch& all, std::int64_t begin, std::int64_t end) {
  return {all.first.slice(0, begin, end), all.second.slice(0, begin, end)};
}
void update(const Metric<Batch>& metric, const Batch& batch) { metric.update(batch, batch.first); }

/// Calls `f(metric, all)` with a new metric of every kind.
template <class F>
void each_metric(const F& f) {
  for (const Kind& kind : kinds())
    for (const Metrics& metrics : {kind.metrics, kind.keeping})
      for (const auto& metric : metrics) {
        CAPTURE(metric.name());
        f(metric.initial(), kind.all);
      }
}

/// Returns whether two lists have the same names, and numbers that differ by their rounding at
/// most, NaN being equal to NaN.
bool near(const MetricValues& a, const MetricValues& b, double bound = 1e-12) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    const bool both_nan = std::isnan(x.second) && std::isnan(y.second);
    return x.first == y.first &&
           (both_nan || std::abs(x.second - y.second) <= bound * std::abs(y.second));
  });
}
bool equal(const MetricValues& a, const MetricValues& b) { return near(a, b, 0); }

MetricValues values_of_all(const Metric<Batch>& metric, const Batch& all) {
  const auto whole = metric.initial();
  update(whole, all);
  return whole.values();
}

StateDict saved(const Metric<Batch>& metric) {
  StateDict dict;
  Archive archive(dict, Archive::Mode::Save);
  metric.state(archive);
  for (auto& [name, tensor] : dict) tensor = tensor.clone();
  return dict;
}
void load(const Metric<Batch>& metric, StateDict dict) {
  Archive archive(dict, Archive::Mode::Check);
  metric.state(archive);
  archive.finish_check();
  metric.state(archive);
}

}  // namespace

TEST_CASE("metrics: batches of any size, also without rows, give the value of all rows") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    for (const auto& [begin, end] : {std::pair{0, 0}, {0, 1}, {1, 9}, {9, 9}, {9, 24}})
      update(metric, rows(all, begin, end));
    CHECK(near(metric.values(), values_of_all(metric, all)));
  });
}

TEST_CASE("metrics: one that is saved between two batches goes on with the same bits") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    const auto resumed = metric.initial(), empty = metric.initial();
    load(resumed, saved(empty));  // before any batch
    update(metric, rows(all, 0, 7));
    update(resumed, rows(all, 7, 24));  // is replaced by what is loaded
    const StateDict half = saved(metric);
    CHECK(!half.empty());
    load(resumed, half);
    CHECK(same(saved(resumed), half));
    for (const auto& one : {metric, resumed}) update(one, rows(all, 7, 24));
    CHECK(same(saved(metric), saved(resumed)));
    CHECK(equal(metric.values(), resumed.values()));
    load(resumed, saved(empty));
    CHECK(same(saved(resumed), saved(empty)));
  });
}

TEST_CASE("metrics: a saved state of which a part is missing, or has another form, is an error") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    update(metric, all);
    const StateDict whole = saved(metric);
    for (const auto& [part, tensor] : whole) {
      StateDict other = whole;
      other[part] = tensor.to(at::kComplexDouble);
      CHECK(told<BadState>([&] { load(metric.initial(), other); }, {part.c_str()}) == "");
      if (whole.size() == 1 || metric.name() == "accuracy") continue;
      other.erase(part);
      CHECK(told<BadState>([&] { load(metric.initial(), other); }, {metric.name().c_str()}) == "");
    }
  });
}

TEST_CASE("metrics: copies share nothing, and each begins as it was given") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    update(metric, rows(all, 0, 7));
    const auto other = metric.initial();
    update(other, all);
    const MetricValues values = other.values();
    update(metric, rows(all, 7, 9));
    CHECK(equal(other.values(), values));
    CHECK(equal(values_of_all(metric, all), values));
  });
}

TEST_CASE("metrics: outputs of 16 bits give the value of the same numbers in FP32") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    const auto expected = metric.initial();
    const Batch half{all.first.to(at::kBFloat16), all.second};
    update(metric, half);
    update(expected, {half.first.to(at::kFloat), all.second});
    CHECK(equal(metric.values(), expected.values()));
  });
}

TEST_CASE("metrics: outputs that require a gradient leave no graph behind") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    const at::Tensor leaf = all.first.clone().requires_grad_();
    update(metric, {leaf * 1, all.second});
    for (const auto& [name, tensor] : saved(metric)) CHECK(!tensor.requires_grad());
    CHECK(leaf.use_count() == 1);
    metric.values();
  });
}

TEST_CASE(
    "metrics: an update reads nothing on the host but whether targets on a CPU are possible") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    Counting counting;
    {
      const bridge::OperatorScope scope(counting);
      update(metric, all), update(metric, all);
    }
    const StateDict state = saved(metric);
    const bool checks = state.count(metric.name() + ".faults") != 0;  // two numbers, on a CPU
    CHECK(counting.seen["aten::_local_scalar_dense"] == (checks ? 4 : 0));
    const bool keeps = state.count(metric.name() + ".scores") != 0;  // an exact curve
    CHECK((counting.seen["aten::index"] > 0) == keeps);
    for (const char* reads : {"aten::nonzero", "aten::masked_select", "aten::bincount"})
      CHECK(counting.seen[reads] == 0);
  });
}

TEST_CASE("metrics: several ranks have the value of one, also if one has no batch") {
  each_metric([](const Metric<Batch>& metric, const Batch& all) {
    const MetricValues expected = values_of_all(metric, all);
    Metrics own{metric.initial(), metric.initial(), metric.initial()};
    update(own[0], rows(all, 0, 9)), update(own[0], rows(all, 9, 11));
    update(own[1], rows(all, 11, 24));
    ranks::on_threads(3, [&](std::shared_ptr<ranks::Wire> wire) {
      own[static_cast<std::size_t>(wire->rank())].reduce(*wire);
    });
    for (const auto& one : own) CHECK(near(one.values(), expected));
    CHECK(equal(own[0].values(), own[2].values()));
  });
}

TEST_CASE("metrics: ranks with other numbers of classes get the same error") {
  for (const Metric<Batch>& metric :
       Metrics{F1Score<Multiclass>{}, AUROC<Multiclass>{}, ConfusionMatrix<Multiclass>{}}) {
    Metrics own{metric.initial(), metric.initial()};
    update(own[0], {at::randn({4, 3}), at::arange(4) % 3});
    update(own[1], {at::randn({4, 5}), at::arange(4)});
    ranks::on_threads(2, [&](std::shared_ptr<ranks::Wire> wire) {
      auto reduce = [&] { own[static_cast<std::size_t>(wire->rank())].reduce(*wire); };
      const std::string wrong = told<BadModel>(reduce, {metric.name().c_str(), "same model"});
      CHECK_MESSAGE(wrong.empty(), wrong);
    });
  }
}

}  // namespace test::metrics
