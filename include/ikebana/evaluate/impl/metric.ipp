#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/metric.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void clone_in_place(at::Tensor& t) { t = t.defined() ? t.clone() : t; }

IKEBANA_INLINE ErasedMetric::ErasedMetric() noexcept = default;
IKEBANA_INLINE ErasedMetric::ErasedMetric(std::string name,
                                          std::shared_ptr<MetricMethods> methods) noexcept
    : name_(std::move(name)), methods_(std::move(methods)) {}
IKEBANA_INLINE ErasedMetric::ErasedMetric(const ErasedMetric& other) = default;
IKEBANA_INLINE ErasedMetric& ErasedMetric::operator=(const ErasedMetric& other) = default;
IKEBANA_INLINE ErasedMetric::~ErasedMetric() = default;

IKEBANA_INLINE void ErasedMetric::update(const void* batch, const at::Tensor& outputs) const {
  if (!outputs.defined())
    throw Error("evaluate: metric `" + name_ +
                "` needs the model's outputs, and the loss gave none. "
                "Return Loss{sum, count, outputs}.");
  methods_->update(batch, outputs);
}

IKEBANA_INLINE double ErasedMetric::value() const { return methods_->value(); }

IKEBANA_INLINE void ErasedMetric::reduce(RankGroup& ranks) const {
  if (!methods_->can_reduce())
    throw Error("evaluate: metric `" + name_ +
                "` has no `reduce(RankGroup&)`, so each rank would report a figure of its own. "
                "Give it one that adds up what it has summed: total = ranks.sum(total).");
  methods_->reduce(ranks);
}

IKEBANA_INLINE ErasedMetric ErasedMetric::initial() const { return methods_->initial(); }

IKEBANA_INLINE std::vector<std::string> names_of(EachMetric each) {
  std::vector<std::string> names;
  each([&](const ErasedMetric& metric) { names.push_back(metric.name()); });
  return names;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Accuracy::count(const at::Tensor& target, const at::Tensor& outputs) {
  const std::int64_t classes = class_dim(outputs, target);
  if (outputs.size(classes) == 1)
    throw BadBatch("Accuracy: outputs of shape " + c10::str(outputs.sizes()) +
                   " have one class, which is always the largest. Give one output per class; for "
                   "a single logit write a metric of your own.");
  at::Tensor predicted = outputs.argmax(classes);
  at::Tensor counted = detail::as_classes(target) != ignore_index;
  at::Tensor batch_correct = ((predicted == target) & counted).sum(), batch_total = counted.sum();
  correct = correct.defined() ? correct + batch_correct : batch_correct;
  total = total.defined() ? total + batch_total : batch_total;
}

IKEBANA_INLINE void Accuracy::reduce(RankGroup& ranks) {
  auto on_host = [](const at::Tensor& t) {
    return t.defined() ? t.to(at::kCPU) : at::zeros({}, at::kLong);
  };
  std::vector<at::Tensor> both{on_host(correct), on_host(total)};
  ranks.sum(both);
  correct = both[0], total = both[1];
}

IKEBANA_INLINE double Accuracy::value() const {
  if (!total.defined() || total.item<double>() == 0)
    throw Error("Accuracy: there was no target to count. Evaluate batches with targets.");
  return correct.item<double>() / total.item<double>();
}

IKEBANA_INLINE std::int64_t Accuracy::class_dim(const at::Tensor& outputs,
                                                const at::Tensor& target) const {
  const std::int64_t last = outputs.dim() - 1,
                     given = dim && *dim < 0 ? *dim + last + 1 : dim.value_or(0);
  if (dim && fits(outputs, target, given)) return given;
  const bool first_fits = fits(outputs, target, 1), last_fits = fits(outputs, target, last);
  if (!dim && first_fits != last_fits) return first_fits ? 1 : last;
  if (!dim && first_fits && last == 1) return 1;
  const std::string shapes = "Accuracy: outputs of shape " + c10::str(outputs.sizes()) +
                             " and targets of shape " + c10::str(target.sizes());
  if (!dim && first_fits)
    throw BadBatch(shapes + " do not show whether dimension 1 or " + std::to_string(last) +
                   " holds the classes. Write Accuracy{.dim = 1} for classes as in "
                   "CrossEntropyLoss, or Accuracy{.dim = -1}.");
  throw BadBatch(shapes + " do not fit" +
                 (dim ? " with classes in dimension " + std::to_string(*dim) : std::string()) +
                 ". Give targets as class indices, and outputs with the classes in dimension 1 "
                 "or last, or name the dimension: Accuracy{.dim = 2}.");
}

IKEBANA_INLINE bool Accuracy::fits(const at::Tensor& outputs, const at::Tensor& target,
                                   std::int64_t d) {
  if (d < 0 || d >= outputs.dim()) return false;
  auto without_classes = outputs.sizes().vec();
  without_classes.erase(without_classes.begin() + d);
  return target.sizes() == without_classes;
}

}  // namespace ikebana
