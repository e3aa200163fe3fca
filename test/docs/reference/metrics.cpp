// Examples of the reference: the metrics of ikebana/metrics.hpp.
#include <ikebana/metrics.hpp>

#include "../classes.hpp"

namespace test::reference_metrics {

using namespace policies;

/// A batch whose targets are labels, and the parts of one with two targets.
struct Clicks {
  at::Tensor input, target;
};
struct Houses {
  at::Tensor input, price, is_sold;
};
struct HousesNetImpl : nn::Module {
  nn::Linear linear = register_module("linear", nn::Linear(2, 2));
  template <class Run>
  Loss loss(Run&, const Houses& batch) {
    const at::Tensor y = linear(batch.input);
    const at::Tensor sum = at::mse_loss(y.select(1, 0), batch.price, at::Reduction::Sum);
    return {.sum = sum, .count = batch.price.numel(), .outputs = y};
  }
};
TORCH_MODULE(HousesNet);

/// The mean of the outputs.
struct MeanOutput {
  std::string name = "mean_output";
  double sum = 0;
  std::int64_t rows = 0;
  template <class Batch>
  void update(const Batch&, const at::Tensor& outputs) {
    sum += outputs.sum().item<double>(), rows += outputs.size(0);
  }
  void state(Archive& archive) { archive.number("sum", sum), archive.number("rows", rows); }
  double value() const { return sum / static_cast<double>(rows); }
};

inline at::Tensor spread(std::int64_t rows, std::int64_t columns) {
  return at::linspace(-2, 2, rows * columns).sin().view({rows, columns});
}

TEST_CASE("reference: metrics of classes") {
  auto held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: F1Score, PrecisionScore, RecallScore, TopKAccuracy, Multiclass, Average, ClassScore
  Evaluation found = trainer.evaluate(
      held_out, F1Score<Multiclass>{}, PrecisionScore<Multiclass>{.average = Average::Weighted},
      RecallScore<Multiclass>{.per_class = true}, TopKAccuracy{.k = 2});
  double f1 = found["f1"], recall_of_class_1 = found["recall.1"], top = found["top_2_accuracy"];
  // end
  CHECK((f1 >= 0 && recall_of_class_1 <= 1 && top >= found["recall"]));
  // example: ConfusionMatrix, Normalize
  Evaluation cells =
      trainer.evaluate(held_out, ConfusionMatrix<Multiclass>{.normalize = Normalize::Target});
  double of_0_predicted_1 = cells["confusion_matrix.0.1"];
  // end
  CHECK((of_0_predicted_1 >= 0 && of_0_predicted_1 <= 1));
  // example: AUROC, AveragePrecision, CurveMetric
  Evaluation areas = trainer.evaluate(held_out, AUROC<Multiclass>{.per_class = true},
                                      AveragePrecision<Multiclass>{.thresholds = 200});
  double mean = areas["auroc"], of_class_0 = areas["auroc.0"];
  // end
  CHECK((mean >= 0 && of_class_0 <= 1));
}

TEST_CASE("reference: metrics by hand, of labels, tokens and pixels") {
  const Clicks batch{spread(6, 3), (spread(6, 3) > 0.2).to(at::kFloat)};
  const at::Tensor logits = spread(6, 3);
  // example: Multilabel, F1Score
  F1Score<Multilabel> f1{.task = {.threshold = 0.3}, .per_class = true};
  f1.update(batch, logits);
  MetricValues of_labels = f1.values();  // {"0", ...}, {"1", ...}, {"2", ...}
  double mean = f1.value();
  // end
  CHECK((of_labels.size() == 3 && mean > 0));
  const at::Tensor clicks = spread(6, 1), click = (clicks > 0).to(at::kFloat).squeeze(1);
  // example: Binary, AUROC
  AUROC<Binary> auroc;
  auroc.update(std::pair{clicks, click}, clicks);  // outputs (N, 1), targets (N)
  double area = auroc.value();
  // end
  CHECK(area == 1);
  const at::Tensor tokens = at::arange(12).view({2, 6}) % 4, next = spread(12, 4).view({2, 6, 4});
  // example: Perplexity, MetricValues
  Perplexity perplexity{.ignore_index = 0};
  perplexity.update(std::pair{tokens, tokens}, next);  // logits (N, T, V)
  double value = perplexity.value();
  MetricValues all = Metric<std::pair<at::Tensor, at::Tensor>>(perplexity).values();
  // end
  CHECK((value > 1 && all.size() == 1));
  const at::Tensor mask = at::arange(32).view({2, 4, 4}) % 3, classes = mask.roll(1);
  // example: MeanIoU
  MeanIoU<Multiclass> iou{.task = {.num_classes = 3}, .ignore_index = 255};
  iou.update(std::pair{mask, mask}, classes);  // predicted classes, or logits (N, C, H, W)
  double mean_iou = iou.value();
  // end
  CHECK((mean_iou >= 0 && mean_iou < 1));
}

TEST_CASE("reference: metrics of a regression, and of chosen outputs and targets") {
  std::vector<Houses> held_out{{spread(6, 2), spread(6, 1).squeeze(1), at::arange(6) % 2}};
  Trainer trainer{HousesNet(), AdamW{.lr = 1e-3}};
  // example: OutputTransform, MeanAbsoluteError, MeanSquaredError, R2Score, Multioutput
  auto price = [](const Houses& batch, const at::Tensor& outputs) {
    return std::pair{outputs.select(1, 0), batch.price};
  };
  auto is_sold = [](const Houses& batch, const at::Tensor& outputs) {
    return std::pair{outputs.select(1, 1), batch.is_sold};
  };
  Evaluation found =
      trainer.evaluate(held_out, OutputTransform{MeanAbsoluteError{}, price},
                       OutputTransform{MeanSquaredError{.squared = false}, price},
                       OutputTransform{R2Score{.multioutput = Multioutput::UniformAverage}, price},
                       OutputTransform{AUROC<Binary>{.name = "sold"}, is_sold});
  double rmse = found["rmse"], sold = found["sold"];
  // end
  CHECK((rmse >= found["mae"] && sold <= 1 && found["r2"] <= 1));
}

TEST_CASE("reference: a metric of one's own that is saved") {
  const Metric<Clicks> metric = MeanOutput{};
  metric.update({}, at::ones({3}));
  StateDict saved;
  Archive archive(saved, Archive::Mode::Save);
  metric.state(archive);
  CHECK((saved.count("mean_output.sum") == 1 && saved.count("mean_output.rows") == 1));
}

}  // namespace test::reference_metrics
