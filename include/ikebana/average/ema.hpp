#pragma once
// Defines EMA of the weights.
#include <ikebana/average/weight_average.hpp>

namespace ikebana {

/// An exponential moving average of the weights, with which `evaluate` computes. After each
/// accepted update, average = decay * average + (1 - decay) * weight; the first update copies the
/// weights; with `from_initial_weights` the average begins with the weights before the first
/// update, as in timm and diffusers. With `warmup` the decay of update n, from 0, is at most (1 +
/// n) / (10 + n). `load_weights` starts it again; `save_weights` and saved states export it as the
/// weights. It averages master weights on the device that stores them, 16-bit ones in FP32. With
/// `use_buffers` it also averages floating-point buffers, beginning with their values after the
/// first step, and copies integer ones. Otherwise, and for sparse and expanded buffers, evaluation
/// uses the model's own. Cost: a copy of all trained weights, one pass over it per step, and three
/// before and three after an evaluation. Parameters that never get a gradient have no average.
/// Source: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn; Polyak and Juditsky,
/// 1992.
struct EMA {
  double decay = 0.999;               ///< share of the average that each step keeps, in [0, 1)
  bool use_buffers = false;           ///< averages floating-point buffers, too
  bool from_initial_weights = false;  ///< begins with the weights before the first update
  bool warmup = false;                ///< the decay of update n is at most (1 + n) / (10 + n)
};

template <>
struct Mechanism<EMA> : detail::WeightAverage<EMA> {
  explicit Mechanism(EMA v);
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    check();
    // If backward has updated weights, an average cannot begin with their former values.
    this->prepare_update(masters, gradients, /*of_all=*/gradients.protocol.updated_in_backward,
                         /*first_copies=*/!values.from_initial_weights,
                         [&](const auto& n) { return weight(n); });
  }
  /// Throws BadValue if the recipe updates weights before this policy sees their initial values.
  void refuse_update_in_backward() const;
  std::string describe() const;

 private:
  void check() const;
  double weight(double n) const;
  at::Tensor weight(const at::Tensor& n) const;

  bool from_initial_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/average/impl/ema.ipp>
#endif
