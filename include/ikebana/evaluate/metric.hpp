#pragma once
// Defines metrics, which an evaluation computes besides the loss.
#include <ikebana/batch.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse_loader.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace ikebana {

class Archive;
template <class Batch>
class Metric;

/// Several numbers of a metric, each with its name. Returned by a metric's `values()`.
using MetricValues = std::vector<std::pair<std::string, double>>;

namespace detail {

/// Replaces a tensor by a copy, if it is defined.
void clone_in_place(at::Tensor& t);

/// Returns a copy of a metric that shares no tensor with it, if its fields can be visited; else the
/// copy is reset, if it has `reset()`.
template <class M>
M own_copy(const M& metric) {
  M copy = metric;
  if constexpr (ShowsFields<M>)
    with_fields(copy, [](auto&... fields) {
      auto clone = [](auto& field) {
        using Field = std::remove_reference_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, at::Tensor> || ListOfTensors<Field> ||
                      MapOfTensors<Field> || std::is_same_v<Field, std::optional<at::Tensor>>)
          for_each_tensor(field, clone_in_place);
      };
      (clone(fields), ...);
    });
  if constexpr (requires { copy.reset(); }) copy.reset();
  return copy;
}

template <class M>
concept HasValue = requires(M& m) { static_cast<double>(m.value()); };
template <class M>
concept HasValues = requires(M& m, MetricValues& values) { values = m.values(); };

/// Returns the reason why a type is not a metric for batches of type `Batch`.
template <class M, class Batch>
consteval auto check_metric() {
  if constexpr (!requires(const M& m, std::string& name) { name = m.name; })
    return refuse::is<refuse::MetricWithoutName<M>>{};
  else if constexpr (!requires(M& m, const Batch& batch, const at::Tensor& outputs) {
                       m.update(batch, outputs);
                     })
    return refuse::is<refuse::MetricTakesOtherArguments<M, Batch>>{};
  else if constexpr (!HasValue<M> && (!HasValues<M> || requires(M& m) { m.value(); }))
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

template <class Batch>
auto each_of(const std::vector<Metric<Batch>>& metrics);
class ErasedMetric;

/// The functions of a metric, without its type and the type of its batches.
class MetricMethods {
 public:
  virtual ~MetricMethods() = default;
  virtual void update(const void* batch, const at::Tensor& outputs) = 0;
  virtual bool can_reduce() const = 0;
  virtual void reduce(RankGroup& ranks) = 0;
  virtual bool can_save() const = 0;
  virtual void state(Archive& archive) = 0;
  /// Returns `value()`, with an empty name, if the metric has it, and then its `values()`.
  virtual MetricValues values() = 0;
  virtual ErasedMetric initial() const = 0;
};

/// A metric without its type and the type of its batches. Copies refer to the same metric. It
/// cannot be moved from, so that it always has a metric.
class ErasedMetric {
 public:
  ErasedMetric() noexcept;
  ErasedMetric(std::string name, std::shared_ptr<MetricMethods> methods) noexcept;
  ErasedMetric(const ErasedMetric& other);
  ErasedMetric& operator=(const ErasedMetric& other);
  ~ErasedMetric();
  const std::string& name() const { return name_; }
  /// Adds a batch, which has the type that the metric takes.
  void update(const void* batch, const at::Tensor& outputs) const;
  /// Returns the number that has the metric's name, and then `<metric>.<name>` of all others.
  MetricValues values() const;
  bool can_reduce() const;
  void reduce(RankGroup& ranks) const;
  bool can_save() const;
  void state(Archive& archive) const;
  ErasedMetric initial() const;

 private:
  std::string name_;
  std::shared_ptr<MetricMethods> methods_;
};

/// Calls its argument with each metric of a list.
using EachMetric = c10::function_ref<void(c10::function_ref<void(const ErasedMetric&)>)>;
std::vector<std::string> names_of(EachMetric each);
std::vector<ErasedMetric> list_of(EachMetric each);
/// Returns the number that has the metric's name. Throws Error if it has none.
double only_value(const ErasedMetric& metric);
/// Saves, checks or loads a sum that the first batch makes, with the dtype and dimensions of
/// `like` and of any size. Where the saved sum has Double and `like` Float, it stays Double.
void archive_sum(Archive& archive, const std::string& name, at::Tensor& sum,
                 const at::Tensor& like);
/// An option of a metric on which its numbers depend, as a saved state has it.
struct MetricOption {
  const char* name;
  double value;                         ///< NaN: not given
  std::vector<const char*> names = {};  ///< the names of the values 0, 1, ..., if they have some
};
/// Returns an option that need not be given.
MetricOption option_of(const char* name, const std::optional<std::int64_t>& value);
/// Saves options of a metric, or compares them with the saved ones, because the sums of a metric
/// with other options cannot be gone on with.
void archive_options(Archive& archive, const std::vector<MetricOption>& options);
/// Returns the dimension of the outputs that holds the classes, which is `dim`, or dimension 1 or
/// the last one, whichever fits the targets. Throws BadBatch, in the name of `metric`, if it does
/// not fit, or is not known; `holder` is the struct that has the field `dim`.
std::int64_t class_dim(const std::string& metric, const std::string& holder,
                       std::optional<std::int64_t> dim, const at::Tensor& outputs,
                       const at::Tensor& target);
/// The targets of a batch that has some.
template <class Batch>
struct JoinedTarget {
  decltype(auto) operator()(const Batch& batch) const {
    if constexpr (holds_more<Batch>) (void)sizeof(refuse::MoreThanInputAndTarget<Batch>);
    return joined(target_of(batch));
  }
};
template <class Batch>
inline constexpr bool has_metric_target =
    requires(const Batch& batch) { joined(target_of(batch)); };
/// `MetricTarget<Batch>{}(batch)` are the targets of a batch for a metric. The compiler refuses a
/// batch without a target, and a tuple with more than an input and a target.
template <class Batch>
using MetricTarget = std::conditional_t<has_metric_target<Batch>, JoinedTarget<Batch>,
                                        refuse::MetricNeedsTarget<Batch>>;

/// A metric that an evaluation updates, and the metric as it was given.
template <class M, class Batch>
class MetricOf final : public MetricMethods {
 public:
  /// Makes both from copies that share nothing.
  static ErasedMetric erased(const M& metric) {
    std::string name;
    name = metric.name;
    return {std::move(name), std::make_shared<MetricOf>(metric)};
  }
  explicit MetricOf(const M& metric) : current_(own_copy(metric)), given_(own_copy(metric)) {}
  void update(const void* batch, const at::Tensor& outputs) override {
    current_.update(*static_cast<const Batch*>(batch), outputs);
  }
  bool can_reduce() const override {
    return requires(M& m, RankGroup& ranks) { m.reduce(ranks); };
  }
  void reduce([[maybe_unused]] RankGroup& ranks) override {
    if constexpr (requires { current_.reduce(ranks); }) current_.reduce(ranks);
  }
  bool can_save() const override {
    return requires(M& m, Archive& archive) { m.state(archive); };
  }
  void state([[maybe_unused]] Archive& archive) override {
    if constexpr (requires { current_.state(archive); }) current_.state(archive);
  }
  MetricValues values() override {
    MetricValues all;
    if constexpr (HasValue<M>) all.emplace_back("", static_cast<double>(current_.value()));
    if constexpr (HasValues<M>)
      for (auto& [name, value] : current_.values()) all.emplace_back(std::move(name), value);
    return all;
  }
  ErasedMetric initial() const override { return erased(given_); }

 private:
  M current_, given_;
};

}  // namespace detail

/// Any metric, with its type erased: a class with `name`, `update(batch, outputs)` and `value()`,
/// and optionally `reset()`. A metric of several numbers has `values()`, which returns
/// MetricValues, besides `value()` or instead of it: an Evaluation has each as `<metric>.<name>`.
/// On several ranks it needs `reduce(RankGroup&)` as well, which is called before `value()` and
/// adds up over ranks what `update` has summed. It is called also on a rank that had no batch, so a
/// sum needs a value from the beginning. To be saved between two batches it needs
/// `state(Archive&)`, which lists what `update` has summed. An evaluation works on a copy, so that
/// each evaluation begins from the metric as it was given. The tensors among the fields of a plain
/// struct are copied, too. A class whose copies share what `update` writes to needs `reset()`,
/// which each evaluation calls.
template <class Batch>
class Metric {
 public:
  /// Copies a metric. The compiler refuses a class without one of the functions, and names the
  /// function.
  template <class M>
    requires(!std::is_same_v<std::decay_t<M>, Metric>)
  Metric(M metric) {
    using Diagnosis = detail::metric_diagnosis_t<M, Batch>;
    (void)sizeof(Diagnosis);
    if constexpr (refuse::passed<Diagnosis>) erased_ = detail::MetricOf<M, Batch>::erased(metric);
  }
  /// Returns the name of its value in an Evaluation.
  const std::string& name() const { return erased_.name(); }
  /// Throws Error if the loss gave no outputs.
  void update(const Batch& batch, const at::Tensor& outputs) const {
    erased_.update(std::addressof(batch), outputs);
  }
  /// Returns its value for all batches since `initial()`. Waits for the device if the metric does.
  /// Throws Error for a metric that has `values()` alone.
  double value() const { return detail::only_value(erased_); }
  /// Returns all its numbers with their names in an Evaluation: `recall`, `recall.0`, `recall.1`.
  MetricValues values() const { return erased_.values(); }
  /// Saves, checks or loads what it has summed, under its name. A metric that is loaded and goes on
  /// has the same bits. Throws Error for a metric without `state`.
  void state(Archive& archive) const { erased_.state(archive); }
  /// Makes the value that of all ranks. Throws Error for a metric without `reduce`.
  void reduce(RankGroup& ranks) const { erased_.reduce(ranks); }
  void reduce(const OneRankGroup&) const {}
  /// Returns a copy of the metric as it was given, before any update.
  Metric initial() const {
    Metric copy;
    copy.erased_ = erased_.initial();
    return copy;
  }

 private:
  template <class B>
  friend auto detail::each_of(const std::vector<Metric<B>>& metrics);
  Metric() = default;

  detail::ErasedMetric erased_;
};

namespace detail {
template <class Batch, class M>
void append(std::vector<Metric<Batch>>& list, M metric) {
  if constexpr (std::is_same_v<M, std::vector<Metric<Batch>>>)
    list.insert(list.end(), metric.begin(), metric.end());
  else list.emplace_back(std::move(metric));
}
/// Returns an `EachMetric` that refers to the list.
template <class Batch>
auto each_of(const std::vector<Metric<Batch>>& metrics) {
  return [&metrics](c10::function_ref<void(const ErasedMetric&)> f) {
    for (const auto& metric : metrics) f(metric.erased_);
  };
}
}  // namespace detail

/// The fraction of targets for which the largest output is the target's class. Targets equal to
/// `ignore_index` do not count. Costs one comparison per batch, on the device.
struct Accuracy {
  std::string name = "accuracy";     ///< its name in an Evaluation
  std::int64_t ignore_index = -100;  ///< the class of targets that do not count
  /// The dimension of the outputs that holds the classes; negative: counted from the last. If it is
  /// not given, dimension 1, as in CrossEntropyLoss, or the last one is used, whichever fits the
  /// targets' shape. If both fit, `update` throws BadBatch.
  std::optional<std::int64_t> dim = {};
  at::Tensor correct = {};  ///< right outputs so far, Long on the device
  at::Tensor total = {};    ///< targets so far, Long on the device

  /// Counts a batch: outputs (N, C, ...) or (N, ..., C), targets (N, ...) of class indices. Throws
  /// BadBatch for shapes that do not fit.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    count(detail::MetricTarget<Batch>{}(batch), outputs);
  }
  /// Adds up over ranks, on the host, because a rank without a batch knows no device.
  void reduce(RankGroup& ranks);
  /// Returns the fraction. Waits for the device. Throws Error without targets.
  double value() const;
  /// Saves, checks or loads what was counted. Throws BadState for one of other options.
  void state(Archive& archive);

  /// Returns the dimension of the outputs that holds the classes. Throws BadBatch if it does not
  /// fit the targets, or if it is not given and their shape does not determine it.
  std::int64_t class_dim(const at::Tensor& outputs, const at::Tensor& target) const;

 private:
  void count(const at::Tensor& target, const at::Tensor& outputs);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/metric.ipp>
#endif
