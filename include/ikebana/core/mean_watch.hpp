#pragma once
// Finds a mean that a loss returns as its sum, and warns of it, and of what a loss does not take.
#include <ikebana/core/probability_watch.hpp>
#include <ikebana/loss.hpp>
#include <memory>

namespace ikebana::detail {

/// RAII: while it exists, the operators of this thread that reduce to a mean are known, by
/// LibTorch's record functions: nothing else tells the mean of a loss operator from its sum. Costs
/// some hundred nanoseconds per operator, so it exists in one forward of a trainer alone. Must be
/// destroyed on the thread that made it, and does not nest.
class MeanWatch {
 public:
  MeanWatch();
  ~MeanWatch();
  MeanWatch(const MeanWatch&) = delete;
  MeanWatch& operator=(const MeanWatch&) = delete;

  /// Warns where a sum of the loss is what such an operator returned, and its count is above 1: the
  /// step would divide it a second time. Of `mean` only where that was over as many elements as are
  /// counted, which are no sums themselves: a sum over rows may be a mean over columns.
  static void warn(const Loss& loss);

 private:
  struct Mean;
  static std::vector<Mean>& means();
  static ProbabilityWatch& probabilities();
  static void warn(const std::string& name, const std::string& by, double count);

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext* context);
  static bool is_sum(const at::Tensor& t);
  static bool reduces_to_mean(const at::RecordFunction& function);

  at::CallbackHandle handle_;
};

/// `loss()`; where it is `due`, warns of a mean that is returned as a sum.
Loss watched(bool due, c10::function_ref<Loss()> loss);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/mean_watch.ipp>
#endif
