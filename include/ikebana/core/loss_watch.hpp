#pragma once
// Watches one forward for mistakes that are silent otherwise. It warns of a mean that is returned
// as a sum, and of probabilities that are given to a loss which takes logits or logarithms, and
// refuses attention over a row of several documents.
#include <array>
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/loss.hpp>
#include <memory>
#include <string_view>

namespace ikebana::detail {

/// Checks each operator of a forward before it runs. The graph tells the operator that made its
/// input, through operators that only change shape, order or dtype.
class ProbabilityWatch {
 public:
  /// Warns of the first operator of a loss that is given probabilities and does not take them.
  void check(const at::RecordFunction& function);

 private:
  using Names = std::array<std::string_view, 8>;
  struct Loss {
    std::string_view name, takes, cure;
    Names makers;  // beginnings of names of nodes

    std::string_view refuses(std::string_view maker) const;
  };
  static std::string_view text_of(std::string_view maker);
  /// A log_softmax of probabilities is part of a cross entropy that is computed in steps.
  static const Loss* loss_of(std::string_view name);
  /// Returns the name of the node that made the values of `t`; empty if no node did.
  static std::string maker_of(const at::Tensor& t);

  bool has_warned_ = false;
};

/// RAII: while it exists, notes the operators of this thread that reduce to a mean, by LibTorch's
/// record functions: nothing else tells the mean of a loss operator from its sum. Costs
/// some hundred nanoseconds per operator, so it exists in one forward of a trainer alone. Must be
/// destroyed on the thread that made it, and does not nest.
class MeanWatch {
 public:
  MeanWatch();
  ~MeanWatch();
  MeanWatch(const MeanWatch&) = delete;
  MeanWatch& operator=(const MeanWatch&) = delete;

  /// Warns if such an operator returned a sum of the loss, and the sum's count is above 1, because
  /// the step would divide it a second time. The operator `mean` counts only if it was over as many
  /// elements as are counted, and if these are not sums themselves, because a sum over rows may be
  /// a mean over columns.
  static void warn(const Loss& loss);
  /// Throws Error if a batch of several documents in a row was computed, and LibTorch's attention
  /// took all of their tokens without a mask.
  static void refuse_attention();

 private:
  struct Mean;
  static std::vector<Mean>& means();
  static ProbabilityWatch& probabilities();
  static void warn(const std::string& name, const std::string& by, double count);

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext* context);
  static void note_attention(const at::RecordFunction& function);
  static bool& attention_over_row();
  static bool is_sum(const at::Tensor& t);
  static bool reduces_to_mean(const at::RecordFunction& function);

  bridge::ThreadCallback callback_;
};

/// Returns `loss()`. If a watch is `due`, warns of a mean that is returned as a sum.
Loss watched(bool due, c10::function_ref<Loss()> loss);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/loss_watch.ipp>
#endif
