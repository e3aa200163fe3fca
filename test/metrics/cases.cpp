// Writes random cases and what the metrics say of them to a file of IKEBANA_METRIC_CASES: for each
// case the outputs and targets of all batches, and one tensor per quantity. oracle.py then computes
// the quantities with scikit-learn.
#include "test.hpp"

#include <filesystem>
#include <ikebana/metrics.hpp>
#include <ikebana/state/saved_state.hpp>
#include <random>

using namespace ikebana;

namespace test::metric_cases {

namespace {

/// One random evaluation: its data, and what is written of it.
class Case {
 public:
  Case(StateDict& to, const std::string& task, std::uint64_t seed)
      : to_(to), prefix_(task + "." + std::to_string(seed) + "/"), random_(seed) {
    at::manual_seed(seed);
  }
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool chance() { return number(0, 1) == 1; }
  void write(const std::string& name, const at::Tensor& t) { to_[prefix_ + name] = t.contiguous(); }
  void write(const std::string& name, double value) {
    write(name, at::scalar_tensor(value, at::kDouble));
  }
  void data(const at::Tensor& outputs, const at::Tensor& target) {
    outputs_ = outputs, target_ = target;
    write("outputs", outputs), write("target", target);
  }
  /// Updates a metric with batches of several sizes, also of 0.
  template <class M>
  M updated(M metric) {
    for (std::int64_t begin = 0, rows = 0; begin < target_.size(0); begin += rows) {
      rows = std::min(number(0, 40), target_.size(0) - begin);
      const std::pair batch{outputs_.narrow(0, begin, rows), target_.narrow(0, begin, rows)};
      metric.update(batch, batch.first);
    }
    return metric;
  }
  /// Writes a metric's value, and its values as one tensor.
  template <class M>
  void write_value(const std::string& name, M metric) {
    metric = updated(std::move(metric));
    if constexpr (requires { metric.value(); }) write(name, metric.value());
    if constexpr (requires { metric.values(); }) {
      std::vector<double> all;
      for (const auto& [part, value] : metric.values()) all.push_back(value);
      if (!all.empty()) write(name + ".each", at::tensor(all, at::kDouble));
    }
  }

 private:
  StateDict& to_;
  std::string prefix_;
  std::mt19937_64 random_;
  at::Tensor outputs_, target_;
};

/// Numbers of which many are equal, or none.
at::Tensor scores(Case& c, at::IntArrayRef sizes) {
  const at::Tensor x = at::randn(sizes, at::kDouble);
  return c.chance() ? (2 * x).round() / 2 : x;
}

/// Logits of classes, of which many rows are equal, or none. The softmax of rows that differ in the
/// order of their elements alone would be rounded in another way by each library.
at::Tensor logits_of_classes(Case& c, at::IntArrayRef sizes) {
  const at::Tensor x = at::randn(sizes, at::kDouble);
  return c.chance() ? x.index_select(0, at::randint(1 + sizes[0] / 2, {sizes[0]}, at::kLong)) : x;
}

/// Replaces some targets by the class that does not count.
std::int64_t ignore_some(Case& c, at::Tensor& target, std::int64_t least) {
  const std::int64_t ignored =
      std::vector<std::int64_t>{-100, 255, least}[static_cast<std::size_t>(c.number(0, 2))];
  target = at::where(at::rand(target.sizes()) < 0.2, ignored, target);
  c.write("ignore_index", static_cast<double>(ignored));
  return ignored;
}

template <template <class> class Score, class Task>
void write_averages(Case& c, const std::string& name, const Task& task, std::int64_t ignored) {
  const std::pair<const char*, Average> all[] = {
      {".micro", Average::Micro}, {".macro", Average::Macro}, {".weighted", Average::Weighted}};
  for (const auto& [suffix, average] : all)
    c.write_value(name + suffix, Score<Task>{.task = task,
                                             .average = average,
                                             .per_class = average == Average::Macro,
                                             .ignore_index = ignored});
}

template <class Task>
void write_scores(Case& c, const Task& task, std::int64_t ignored) {
  write_averages<PrecisionScore>(c, "precision", task, ignored);
  write_averages<RecallScore>(c, "recall", task, ignored);
  write_averages<F1Score>(c, "f1", task, ignored);
  write_averages<MeanIoU>(c, "iou", task, ignored);
}

template <class Task>
void write_confusion(Case& c, const Task& task, std::int64_t ignored) {
  const std::pair<const char*, Normalize> all[] = {{"none", Normalize::Off},
                                                   {"true", Normalize::Target},
                                                   {"pred", Normalize::Prediction},
                                                   {"all", Normalize::All}};
  for (const auto& [suffix, normalize] : all)
    c.write_value(
        std::string("confusion.") + suffix,
        ConfusionMatrix<Task>{.task = task, .normalize = normalize, .ignore_index = ignored});
}

template <class Task>
void write_curves(Case& c, const Task& task, std::int64_t ignored) {
  const std::int64_t thresholds = c.number(2, 20);
  c.write("thresholds", static_cast<double>(thresholds));
  for (std::int64_t bins : {std::int64_t{0}, thresholds}) {
    const std::string suffix = bins > 0 ? ".bins" : "";
    c.write_value(
        "auroc" + suffix,
        AUROC<Task>{.task = task, .thresholds = bins, .per_class = true, .ignore_index = ignored});
    c.write_value(
        "ap" + suffix,
        AveragePrecision<Task>{
            .task = task, .thresholds = bins, .per_class = true, .ignore_index = ignored});
  }
}

/// Logits (N, C), (N, C, T) or (N, T, C), of which some classes never occur.
void multiclass(Case&& c) {
  const std::int64_t classes = c.number(3, 11), n = c.number(4, 60), form = c.number(0, 2);
  const std::int64_t dim = form == 2 ? 2 : 1, there = c.number(2, classes), t = c.number(2, 5);
  std::vector<std::int64_t> sizes{n}, shape{n, classes};
  if (form > 0) sizes.push_back(t), shape = {n, classes, t};
  const bool from_logits = c.chance();
  at::Tensor logits = from_logits ? logits_of_classes(c, shape) : scores(c, shape);
  at::Tensor target = at::randint(there, sizes, at::kLong);
  if (c.chance()) logits.narrow(1, there, classes - there) -= 100;  // is never predicted
  if (!from_logits) logits = logits.softmax(1);
  if (dim == 2) logits = logits.transpose(1, 2).contiguous();
  const std::int64_t ignored = ignore_some(c, target, 0);
  const Multiclass task{.dim = dim, .from_logits = from_logits};
  c.write("dim", static_cast<double>(dim));
  c.write("from_logits", from_logits);
  c.data(logits, target);
  write_scores(c, task, ignored), write_confusion(c, task, ignored);
  write_curves(c, task, ignored);
  const std::int64_t k = c.number(1, classes - 1);
  c.write_value("top." + std::to_string(k),
                TopKAccuracy{.k = k, .ignore_index = ignored, .dim = dim});
  if (from_logits) c.write_value("perplexity", Perplexity{.ignore_index = ignored, .dim = dim});
}

/// Scores (N), (N, 1) or (N, T).
void binary(Case&& c) {
  const std::int64_t n = c.number(4, 60), form = c.number(0, 2);
  std::vector<std::int64_t> sizes{n}, shape{n};
  if (form == 1) shape.push_back(1);
  if (form == 2) sizes.push_back(3), shape = sizes;
  at::Tensor logits = scores(c, shape), target = at::randint(2, sizes, at::kLong);
  if (c.number(0, 5) == 0) target.zero_();
  const bool from_logits = c.chance();
  if (!from_logits) logits = logits.sigmoid();
  const std::int64_t ignored = ignore_some(c, target, -1);
  const double threshold = 0.1 * static_cast<double>(c.number(2, 8));
  const Binary task{.threshold = threshold, .from_logits = from_logits};
  c.write("threshold", threshold), c.write("from_logits", from_logits);
  c.data(logits, c.chance() ? target : target.to(at::kFloat));
  write_scores(c, task, ignored), write_confusion(c, task, ignored);
  write_curves(c, task, ignored);
}

/// Scores (N, L) or (N, L, T), with labels that never occur.
void multilabel(Case&& c) {
  const std::int64_t labels = c.number(2, 11), n = c.number(4, 40);
  std::vector<std::int64_t> shape{n, labels};
  if (c.chance()) shape.push_back(3);
  at::Tensor logits = scores(c, shape), target = (at::rand(shape) < 0.4).to(at::kLong);
  const std::int64_t there = c.number(1, labels);
  target.narrow(1, there, labels - there).zero_();
  logits.narrow(1, there, labels - there) -= c.chance() ? 100 : 0;
  const bool from_logits = c.chance();
  if (!from_logits) logits = logits.sigmoid();
  const std::int64_t ignored = ignore_some(c, target, -1);
  const Multilabel task{.threshold = 0.4, .from_logits = from_logits};
  c.write("threshold", task.threshold), c.write("from_logits", from_logits);
  c.data(logits, target);
  write_scores(c, task, ignored), write_curves(c, task, ignored);
}

/// Maps of predicted classes (N, H, W).
void segmentation(Case&& c) {
  const std::int64_t classes = c.number(2, 11), n = c.number(1, 8), there = c.number(1, classes);
  at::Tensor predicted = at::randint(there, {n, 6, 5}, at::kLong);
  at::Tensor target =
      at::where(at::rand({n, 6, 5}) < 0.5, predicted, at::randint(classes, {n, 6, 5}, at::kLong));
  const std::int64_t ignored = ignore_some(c, target, 0);
  c.write("classes", static_cast<double>(classes));
  c.data(predicted, target);
  write_averages<MeanIoU>(c, "iou", Multiclass{.num_classes = classes}, ignored);
}

/// Targets (N) or (N, D), far from 0, with columns that do not vary.
void regression(Case&& c) {
  const std::int64_t n = c.number(3, 60), columns = c.number(2, 5);
  std::vector<std::int64_t> shape{n};
  if (c.chance()) shape.push_back(columns);
  at::Tensor target = at::randn(shape, at::kDouble) + 100;
  if (shape.size() == 2 && c.chance()) target.select(1, 0).fill_(0.1);
  c.data(target + at::randn(shape, at::kDouble), target);
  c.write_value("mae", MeanAbsoluteError{}), c.write_value("mse", MeanSquaredError{});
  c.write_value("rmse", MeanSquaredError{.squared = false});
  c.write_value("r2", R2Score{.per_output = true});
  c.write_value("r2.weighted", R2Score{.multioutput = Multioutput::VarianceWeighted});
}

}  // namespace

TEST_CASE("metrics: random cases are written, which oracle.py compares with scikit-learn") {
  StateDict all;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    multiclass({all, "multiclass", seed}), binary({all, "binary", seed});
    multilabel({all, "multilabel", seed}), segmentation({all, "segmentation", seed});
    regression({all, "regression", seed});
  }
  std::filesystem::create_directories(IKEBANA_METRIC_CASES);
  save_tensors(IKEBANA_METRIC_CASES "/metrics.safetensors", all);
  CHECK(all.size() > 120 * 10);
}

}  // namespace test::metric_cases
