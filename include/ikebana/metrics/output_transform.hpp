#pragma once
// A metric of chosen parts of a batch and of the outputs.
#include <ikebana/evaluate/metric.hpp>

namespace ikebana {

/// A metric that compares what a function of the batch and the outputs returns, as the argument
/// `output_transform` of PyTorch Ignite's metrics: for a model with several outputs, for a batch
/// with several targets, or to leave items out. `transform(batch, outputs)` returns a pair
/// `{outputs, target}`, which the metric is given. It has the name and all functions of the metric.
/// Cost: that of the function.
template <class M, class F>
class OutputTransform {
 public:
  std::string name;  ///< its name in an Evaluation, at first that of the metric

  /// Keeps copies of both.
  OutputTransform(M metric, F transform)
      : name(metric.name),
        given_(std::move(metric)),
        current_(detail::own_copy(given_)),
        transform_(std::move(transform)) {}

  /// Updates the metric with what the function returns. The compiler refuses a function that does
  /// not return a pair.
  template <class Batch>
    requires std::is_invocable_v<const F&, const Batch&, const at::Tensor&>
  void update(const Batch& batch, const at::Tensor& outputs) {
    using Chosen = std::invoke_result_t<const F&, const Batch&, const at::Tensor&>;
    if constexpr (requires(Chosen chosen) {
                    at::Tensor(chosen.first);
                    detail::joined(chosen.second);
                  }) {
      const auto chosen = transform_(batch, outputs);
      current_.update(chosen, chosen.first);
    } else {
      (void)sizeof(refuse::TransformReturnsNoPair<Chosen>);
    }
  }
  /// Begins again from the metric as it was given.
  void reset() { current_ = detail::own_copy(given_); }
  /// Adds up over ranks as the metric does.
  void reduce(RankGroup& ranks)
    requires requires(M& m) { m.reduce(ranks); }
  {
    current_.reduce(ranks);
  }
  /// Returns the metric's value.
  double value()
    requires detail::HasValue<M>
  {
    return static_cast<double>(current_.value());
  }
  /// Returns the metric's numbers.
  MetricValues values()
    requires detail::HasValues<M>
  {
    return current_.values();
  }
  /// Saves, checks or loads what the metric has summed.
  void state(Archive& archive)
    requires requires(M& m) { m.state(archive); }
  {
    current_.state(archive);
  }

 private:
  M given_, current_;
  F transform_;
};

}  // namespace ikebana
