#pragma once
// Metrics: what an evaluation measures besides the loss.
#include <functional>
#include <ikebana/batch.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse_loader.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <memory>
#include <optional>

namespace ikebana {

template <class Batch>
class Metric;

namespace detail {

/// A copy of a metric that shares no tensor with it where its fields can be seen; else it is reset,
/// if it has `reset()`.
template <class M>
M own_copy(const M& metric) {
  M copy = metric;
  if constexpr (ShowsFields<M>)
    with_fields(copy, [](auto&... fields) {
      auto clone = [](auto& field) {
        using Field = std::remove_reference_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, at::Tensor> || ListOfTensors<Field> ||
                      MapOfTensors<Field> || std::is_same_v<Field, std::optional<at::Tensor>>)
          for_each_tensor(field, [](at::Tensor& t) { t = t.defined() ? t.clone() : t; });
      };
      (clone(fields), ...);
    });
  if constexpr (requires { copy.reset(); }) copy.reset();
  return copy;
}

/// Why a type is no metric for batches of type `Batch`.
template <class M, class Batch>
consteval auto check_metric() {
  if constexpr (!requires(const M& m, std::string& name) { name = m.name; })
    return refuse::is<refuse::MetricWithoutName<M>>{};
  else if constexpr (!requires(M& m, const Batch& batch, const at::Tensor& outputs) {
                       m.update(batch, outputs);
                     })
    return refuse::is<refuse::MetricTakesOtherArguments<M, Batch>>{};
  else if constexpr (!requires(M& m) { static_cast<double>(m.value()); })
    return refuse::is<refuse::MetricWithoutValue<M>>{};
  else return refuse::is<refuse::Nothing>{};
}
template <class M, class Batch>
struct metric_diagnosis : decltype(check_metric<M, Batch>()) {};
template <class Batch>
struct metric_diagnosis<Metric<Batch>, Batch> : refuse::is<refuse::Nothing> {};
template <class Batch>
struct metric_diagnosis<std::vector<Metric<Batch>>, Batch> : refuse::is<refuse::Nothing> {};
template <class M, class Batch>
using metric_diagnosis_t = typename metric_diagnosis<M, Batch>::type;

}  // namespace detail

/// Any metric, with its type erased: a class with `name`, `update(batch, outputs)` and `value()`,
/// and `reset()` where it has one. On several ranks it needs `reduce(RankGroup&)` as well, called
/// before `value()`, which adds up over ranks what `update` has summed, also on a rank that had no
/// batch, so that a sum needs a value from the beginning. An evaluation works on a
/// copy, so that each evaluation begins from the metric as it was given. The tensors among the
/// fields of a plain struct are copied, too; a class whose copies share what `update` writes to
/// needs `reset()`, which each evaluation calls.
template <class Batch>
class Metric {
 public:
  /// Copies a metric. What lacks one of its functions is refused by the compiler, which names it.
  template <class M>
    requires(!std::is_same_v<std::decay_t<M>, Metric>)
  Metric(M metric) {
    using Diagnosis = detail::metric_diagnosis_t<M, Batch>;
    (void)sizeof(Diagnosis);
    if constexpr (refuse::passed<Diagnosis>) erase(metric);
  }
  /// The name under which an Evaluation has its value.
  const std::string& name() const { return name_; }
  /// Throws Error if the loss gave no outputs.
  void update(const Batch& batch, const at::Tensor& outputs) const {
    if (!outputs.defined())
      throw Error("evaluate: metric `" + name_ +
                  "` needs the model's outputs, and the loss gave none. "
                  "Return Loss{sum, count, outputs}.");
    update_(batch, outputs);
  }
  /// Its value for all batches since `initial()`. Waits for the device where the metric does.
  double value() const { return value_(); }
  /// From here on the value is that of all ranks. Throws Error for a metric that cannot be.
  void reduce(RankGroup& ranks) const {
    if (!reduce_)
      throw Error("evaluate: metric `" + name_ +
                  "` has no `reduce(RankGroup&)`, so each rank would report a figure of its own. "
                  "Give it one that adds up what it has summed: total = ranks.sum(total).");
    reduce_(ranks);
  }
  void reduce(const OneRankGroup&) const {}
  /// A copy of the metric as it was given, before any update.
  Metric initial() const { return initial_(); }

 private:
  template <class M>
  void erase(const M& metric) {
    name_ = metric.name;
    auto shared = std::make_shared<M>(detail::own_copy(metric));
    update_ = [shared](const Batch& batch, const at::Tensor& outputs) {
      shared->update(batch, outputs);
    };
    if constexpr (requires(RankGroup& ranks) { shared->reduce(ranks); })
      reduce_ = [shared](RankGroup& ranks) { shared->reduce(ranks); };
    value_ = [shared] { return static_cast<double>(shared->value()); };
    initial_ = [initial = detail::own_copy(metric)] { return Metric(initial); };
  }

  std::string name_;
  std::function<void(const Batch&, const at::Tensor&)> update_;
  std::function<void(RankGroup&)> reduce_;
  std::function<double()> value_;
  std::function<Metric()> initial_;
};

namespace detail {
template <class Batch, class M>
void append(std::vector<Metric<Batch>>& list, M metric) {
  if constexpr (std::is_same_v<M, std::vector<Metric<Batch>>>)
    list.insert(list.end(), metric.begin(), metric.end());
  else list.emplace_back(std::move(metric));
}
}  // namespace detail

/// The fraction of targets for which the largest output is the target's class. Targets equal to
/// `ignore_index` do not count. Costs one comparison per batch, on the device.
struct Accuracy {
  std::string name = "accuracy";     ///< by which an Evaluation has it
  std::int64_t ignore_index = -100;  ///< the class of targets that do not count
  /// The dimension of the outputs that holds the classes; negative: counted from the last. Without
  /// it, that is dimension 1, as in CrossEntropyLoss, or the last one, whichever fits the targets'
  /// shape; where both do, BadBatch is thrown.
  std::optional<std::int64_t> dim = {};
  at::Tensor correct = {};  ///< right outputs so far, Long on the device
  at::Tensor total = {};    ///< targets so far, Long on the device

  /// Counts a batch: outputs (N, C, ...) or (N, ..., C), targets (N, ...) of class indices. Throws
  /// BadBatch for shapes that do not fit.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    if constexpr (detail::holds_more<Batch>) (void)sizeof(refuse::MoreThanInputAndTarget<Batch>);
    const at::Tensor& target = detail::joined(detail::target_of(batch));
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
  /// On the host, since a rank without a batch knows of no device.
  void reduce(RankGroup& ranks);
  /// Waits for the device. Throws Error without targets.
  double value() const;

  /// The dimension of the outputs that holds the classes. Throws BadBatch if it does not fit the
  /// targets, or if it is not given and cannot be told from their shape.
  std::int64_t class_dim(const at::Tensor& outputs, const at::Tensor& target) const;

 private:
  /// Whether the targets have the outputs' shape without dimension `d`.
  static bool fits(const at::Tensor& outputs, const at::Tensor& target, std::int64_t d);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/metric.ipp>
#endif
