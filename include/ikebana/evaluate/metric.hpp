#pragma once
// What an evaluation measures besides the loss.
#include <functional>
#include <ikebana/batch.hpp>
#include <memory>

namespace ikebana {

/// Any metric with its type erased: a class with `name`, `update(batch, outputs)` and `value()`.
/// Copied when an evaluation begins, so that each starts from what was given.
template <class Batch>
class Metric {
 public:
  template <class M>
    requires(!std::is_same_v<std::decay_t<M>, Metric>)
  Metric(M metric) : name_(metric.name) {
    auto held = std::make_shared<M>(std::move(metric));
    update_ = [held](const Batch& batch, const at::Tensor& outputs) {
      held->update(batch, outputs);
    };
    value_ = [held] { return static_cast<double>(held->value()); };
    fresh_ = [start = *held] { return Metric(start); };
  }
  const std::string& name() const { return name_; }
  /// Throws where the loss gave no outputs.
  void update(const Batch& batch, const at::Tensor& outputs) const {
    if (!outputs.defined())
      throw Error("evaluate: metric `" + name_ +
                  "` needs the model's outputs, and the loss gave none. "
                  "Return Loss{sum, count, outputs}.");
    update_(batch, outputs);
  }
  double value() const { return value_(); }
  Metric fresh() const { return fresh_(); }

 private:
  std::string name_;
  std::function<void(const Batch&, const at::Tensor&)> update_;
  std::function<double()> value_;
  std::function<Metric()> fresh_;
};

namespace detail {
template <class Batch, class M>
void append(std::vector<Metric<Batch>>& list, M metric) {
  if constexpr (std::is_same_v<M, std::vector<Metric<Batch>>>)
    list.insert(list.end(), metric.begin(), metric.end());
  else list.emplace_back(std::move(metric));
}
}  // namespace detail

/// The share of targets that the largest output hits; classes are in dimension 1, as in
/// CrossEntropyLoss, or in the last where only that fits. Targets equal to `ignore_index` do not
/// count. One comparison a batch, on the device.
struct Accuracy {
  std::string name = "accuracy";
  std::int64_t ignore_index = -100;
  at::Tensor hits = {}, seen = {};

  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    const at::Tensor& target = detail::target_of(batch);
    at::Tensor guess = outputs.argmax(classes_of(outputs, target));
    at::Tensor counts = target != ignore_index;
    at::Tensor right = ((guess == target) & counts).sum(), all = counts.sum();
    hits = hits.defined() ? hits + right : right;
    seen = seen.defined() ? seen + all : all;
  }
  double value() const {
    if (!seen.defined() || seen.item<double>() == 0)
      throw Error("Accuracy: it has seen no target.");
    return hits.item<double>() / seen.item<double>();
  }

  static std::int64_t classes_of(const at::Tensor& outputs, const at::Tensor& target) {
    for (std::int64_t dim : {std::int64_t{1}, outputs.dim() - 1}) {
      if (dim >= outputs.dim()) continue;
      auto rest = outputs.sizes().vec();
      rest.erase(rest.begin() + dim);
      if (target.sizes() == rest) return dim;
    }
    throw BadBatch("Accuracy: outputs of shape " + c10::str(outputs.sizes()) +
                   " do not fit targets of shape " + c10::str(target.sizes()) +
                   ". Targets are class indices; outputs have the classes in dimension 1 or last.");
  }
};

}  // namespace ikebana
