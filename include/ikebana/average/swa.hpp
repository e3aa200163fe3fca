#pragma once
// Defines SWA, the equal average of weights.
#include <ikebana/average/weight_average.hpp>

namespace ikebana {

/// Stochastic weight averaging: the equal average of the weights after `start_step` steps and after
/// every `every_steps` steps from then on, with which `evaluate` computes. Both count the trainer's
/// steps, as schedules do; the first average is a copy. For one average at the end of each epoch,
/// `every_steps` is the number of steps of an epoch. If the step that is due is skipped, it adds
/// nothing. `Trainer::update_bn` computes batch norm's statistics of the averaged weights. As for
/// EMA, `load_weights` starts it again, `save_weights` and saved states export it as the weights,
/// 16-bit masters have an FP32 average, and `use_buffers` averages buffers. Cost: a copy of all
/// trained weights from the first average on, one pass over it in each step that takes an average,
/// and three before and three after an evaluation. Source: torch.optim.swa_utils.AveragedModel;
/// Izmailov et al., arXiv:1803.05407.
struct SWA {
  std::int64_t start_step = 0;   ///< steps before the first average
  std::int64_t every_steps = 1;  ///< steps from one average to the next
  bool use_buffers = false;      ///< averages floating-point buffers, too
};

template <>
struct Mechanism<SWA> : detail::WeightAverage<SWA> {
  explicit Mechanism(SWA v) : WeightAverage(v, "SWA") { check(); }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    check();
    if (!is_due()) return this->prepare_none();
    this->prepare_update(masters, gradients, /*of_all=*/true, /*first_copies=*/true,
                         [](const auto& n) { return 1 / (n + 1); });
  }
  void end_step(const StepGradients&, Report&) noexcept { ++steps_; }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters);

 private:
  void check() const;
  /// Returns true if the present step ends with an average. For a step that only measures memory
  /// this is always so, because it measures the most that a step needs.
  bool is_due() const;

  std::int64_t steps_ = 0;  // including the skipped ones
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/average/impl/swa.ipp>
#endif
