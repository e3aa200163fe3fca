#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE void clone_in_place(at::Tensor& t) { t = t.defined() ? t.clone() : t; }

IKEBANA_INLINE ErasedMetric::ErasedMetric() noexcept = default;
IKEBANA_INLINE ErasedMetric::ErasedMetric(std::string name,
                                          std::shared_ptr<MetricMethods> methods) noexcept
    : name_(std::move(name)), methods_(std::move(methods)) {}
IKEBANA_INLINE ErasedMetric::ErasedMetric(const ErasedMetric& other) = default;
IKEBANA_INLINE ErasedMetric& ErasedMetric::operator=(const ErasedMetric& other) = default;
IKEBANA_INLINE ErasedMetric::~ErasedMetric() = default;

IKEBANA_INLINE bool ErasedMetric::can_reduce() const { return methods_->can_reduce(); }
IKEBANA_INLINE bool ErasedMetric::can_save() const { return methods_->can_save(); }

IKEBANA_INLINE void ErasedMetric::update(const void* batch, const at::Tensor& outputs) const {
  if (!outputs.defined())
    throw Error("metric `" + name_ +
                "` needs the model's outputs, and the loss gave none. "
                "Return Loss{sum, count, outputs}.");
  methods_->update(batch, outputs);
}

IKEBANA_INLINE MetricValues ErasedMetric::values() const {
  MetricValues all = methods_->values();
  for (auto& [name, value] : all) name = name.empty() ? name_ : name_ + "." + name;
  return all;
}

IKEBANA_INLINE void ErasedMetric::state(Archive& archive) const {
  if (!methods_->can_save())
    throw Error("metric `" + name_ +
                "` has no `state(Archive&)`, so what it has counted cannot be saved. Give it one "
                "that lists its tensors and numbers: archive.number(\"total\", total).");
  archive.within(name_, [&] { methods_->state(archive); });
}

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

IKEBANA_INLINE std::vector<ErasedMetric> list_of(EachMetric each) {
  std::vector<ErasedMetric> list;
  each([&](const ErasedMetric& metric) { list.push_back(metric); });
  return list;
}

IKEBANA_INLINE double only_value(const ErasedMetric& metric) {
  for (const auto& [name, value] : metric.values())
    if (name == metric.name()) return value;
  throw Error("metric `" + metric.name() +
              "` has several numbers and none of its own name. Read `values()`.");
}

IKEBANA_INLINE void archive_sum(Archive& archive, const std::string& name, at::Tensor& sum,
                                const at::Tensor& like) {
  const auto [dict, prefix] = archive.saved();
  const auto found = archive.saving() ? dict.end() : dict.find(prefix + name);
  at::Tensor form = like;
  if (found != dict.end() && found->second.defined()) {
    const auto own = like.scalar_type(), saved = found->second.scalar_type();
    const bool fits = saved == own || (saved == at::kDouble && own == at::kFloat);
    if (fits && found->second.dim() == like.dim()) form = found->second;
  }
  archive.optional(name, sum, form);
}

IKEBANA_INLINE MetricOption option_of(const char* name, const std::optional<std::int64_t>& value) {
  return {name, value ? static_cast<double>(*value) : std::numeric_limits<double>::quiet_NaN()};
}

inline std::string text_of_value(const MetricOption& option, double value) {
  if (std::isnan(value)) return "not given";
  if (const auto i = static_cast<std::size_t>(value); value >= 0 && i < option.names.size())
    return option.names[i];
  return c10::str(value);
}

inline std::string text_of_change(const MetricOption& option, double other) {
  const std::string saved = text_of_value(option, other);
  return "is " + saved + ", here it is " + text_of_value(option, option.value);
}

IKEBANA_INLINE void archive_options(Archive& archive, const std::vector<MetricOption>& options) {
  archive.within("options", [&] {
    for (const MetricOption& option : options) {
      double other = option.value;
      archive.number(option.name, other);  // a copy: loading does not change the option
      const at::Tensor* saved = archive.find_like(option.name, at::empty({}, at::kDouble));
      if (!archive.checking() || saved == nullptr) continue;
      other = saved->item<double>();
      if (other != option.value && !(std::isnan(other) && std::isnan(option.value)))
        archive.add_mismatch(option.name, text_of_change(option, other));
    }
  });
}

IKEBANA_INLINE bool is_without_classes(const at::Tensor& outputs, const at::Tensor& target,
                                       std::int64_t d) {
  if (d < 0 || d >= outputs.dim()) return false;
  auto without_classes = outputs.sizes().vec();
  without_classes.erase(without_classes.begin() + d);
  return target.sizes() == without_classes;
}

IKEBANA_INLINE std::int64_t class_dim(const std::string& metric, const std::string& holder,
                                      std::optional<std::int64_t> dim, const at::Tensor& outputs,
                                      const at::Tensor& target) {
  const std::int64_t last = outputs.dim() - 1,
                     given = dim && *dim < 0 ? *dim + last + 1 : dim.value_or(0);
  auto fits = [&](std::int64_t d) { return is_without_classes(outputs, target, d); };
  if (dim && fits(given)) return given;
  const bool first_fits = fits(1), last_fits = fits(last);
  if (!dim && first_fits != last_fits) return first_fits ? 1 : last;
  if (!dim && first_fits && last == 1) return 1;
  const std::string shapes = metric + ": outputs of shape " + c10::str(outputs.sizes()) +
                             " and targets of shape " + c10::str(target.sizes());
  if (!dim && first_fits)
    throw BadBatch(shapes + " do not show whether dimension 1 or " + std::to_string(last) +
                   " holds the classes. Write " + holder +
                   "{.dim = 1} for classes as in CrossEntropyLoss, or " + holder + "{.dim = -1}.");
  throw BadBatch(shapes + " do not fit" +
                 (dim ? " with classes in dimension " + std::to_string(*dim) : std::string()) +
                 ". Give targets as class indices, and outputs with the classes in dimension 1 "
                 "or last, or name the dimension: " +
                 holder + "{.dim = 2}.");
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

IKEBANA_INLINE void Accuracy::state(Archive& archive) {
  detail::archive_options(
      archive, {detail::option_of("ignore_index", ignore_index), detail::option_of("dim", dim)});
  detail::archive_sum(archive, "correct", correct, at::empty({}, at::kLong));
  detail::archive_sum(archive, "total", total, at::empty({}, at::kLong));
}

IKEBANA_INLINE std::int64_t Accuracy::class_dim(const at::Tensor& outputs,
                                                const at::Tensor& target) const {
  return detail::class_dim("Accuracy", "Accuracy", dim, outputs, target);
}

}  // namespace ikebana
