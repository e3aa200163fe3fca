#pragma once
// Perplexity of a language model: the exponential of its mean cross entropy.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana {

/// The exponential of the mean cross entropy of the targets; torchmetrics' `Perplexity`. The mean
/// is over all targets of an evaluation, not over the means of batches. Shapes: as for Multiclass,
/// e.g. logits (N, T, V) and tokens (N, T). State: a sum in Double and integers, on the device.
/// Cost: one pass over the logits, with a copy in FP32 of logits of 16 bits, and no wait for the
/// device.
struct Perplexity {
  std::string name = "perplexity";       ///< its name in an Evaluation
  std::int64_t ignore_index = -100;      ///< the value of targets that do not count
  std::optional<std::int64_t> dim = {};  ///< the dimension of the classes, as in Multiclass
  detail::MetricSums sums = {};          ///< what was summed so far

  /// Adds a batch of logits. Log probabilities give the same value. Throws BadBatch for shapes that
  /// do not fit, and on a CPU for impossible targets, NonFinite for NaN outputs; on a device
  /// `value` does.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    add({name, outputs, detail::MetricTarget<Batch>{}(batch), ignore_index, "Perplexity"});
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the perplexity. Waits for the device. Throws Error without targets, and if outputs
  /// are probabilities.
  double value() const;
  /// Saves, checks or loads what was summed. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(
        archive, {detail::option_of("ignore_index", ignore_index), detail::option_of("dim", dim)});
    sums.state(archive, {{"sum", at::kDouble, 0}, {"faults", at::kLong, 1}});
  }

 private:
  void add(const detail::MetricInput& in);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/perplexity.ipp>
#endif
