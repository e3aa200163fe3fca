#pragma once
// Defines the policy Precision<BF16True> and its mechanism.
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/model/rule.hpp>
#include <ikebana/precision/low_precision_weights.hpp>
#include <ikebana/precision/stochastic_rounding.hpp>

namespace ikebana {

/// BF16 weights without master weights: for the lifetime of the trainer, parameters and gradients
/// are BF16. Updates are computed in FP32 and rounded stochastically, so that updates smaller than
/// BF16's resolution still move weights on average. Everything else computes as in Precision<BF16>.
/// Memory: 4 bytes per weight with its gradient; the optimizer's state in FP32, since a BF16 moment
/// would not change by 0.1% of itself, which rounds away; and scratch for the largest parameter, 8
/// bytes per element, or 16 on an accelerator. Gradients of several microbatches are summed in
/// BF16. Random bits depend on `seed`, the step, the parameter and the element's index only: no
/// generator is used, all ranks have the same, and the seed and step are saved. Parameters for
/// which `keep_fp32` is true stay in FP32. The model's own weights are kept until the first step,
/// so a trainer without a step changes no bit of them; after that, frozen weights are rounded, too.
/// Source: Zamirai et al., arXiv:2010.06192.
template <>
struct Precision<BF16True> {
  ParameterRule keep_fp32 = biases_and_norms;       ///< chooses the parameters that stay in FP32
  std::int64_t seed = 0;                            ///< seed of the random bits that round updates
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <>
struct Mechanism<Precision<BF16True>> : detail::LowPrecisionWeights, UpdateRounding {
  using carries_out = Precision<BF16True>;
  Precision<BF16True> values;
  explicit Mechanism(Precision<BF16True> v) : values(std::move(v)) {}
  IKEBANA_INLINE ~Mechanism() override;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  void attach(c10::Device where, const UnitTable& table);
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    for (Converted& converted : converted_) converted.before.reset();
    return next();
  }
  UpdateRounding* rounding() { return this; }
  void begin(const Masters& masters);

  IKEBANA_INLINE void prepare_rounding(const at::TensorOptions& options,
                                       std::int64_t max_elements) override;
  IKEBANA_INLINE void write(const at::Tensor& parameter, const at::Tensor& exact,
                            std::size_t index) noexcept override;
  void end_step(const StepGradients&, Report&) noexcept { ++round_; }
  template <class Visit>
  void each_number(const Visit& visit) {
    visit(key_);
  }
  template <class Rate>
  void set_numbers(const Rate&) {
    set_key();
  }
  void end_replay() noexcept { ++round_; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    check_rule(values.keep_fp32);
  }
  std::string describe() const;
  void state(Archive& archive, const Masters&);

 private:
  /// A parameter that was converted. Its former values are kept until the first step, so that a
  /// trainer without a step, such as one whose constructor throws, changes no bit of the model.
  struct Converted {
    at::Tensor parameter, before;
    at::ScalarType type;
  };
  /// Returns the index of a master's parameter among all parameters of the model. Frozen ones are
  /// counted, so the index does not depend on which parameters have masters.
  std::size_t number_of(std::size_t master) const;
  /// Is not part of a recorded step: each replay has another key, which is set before it.
  void set_key();
  static void restore(const Converted& c);
  static void convert(at::Tensor parameter, at::ScalarType type);

  std::vector<Converted> converted_;
  std::vector<std::int64_t> first_elements_;  // the first element of each master within its
                                              // parameter; empty: all are 0
  std::vector<std::string> names_;            // the names of all parameters
  std::vector<std::size_t> numbers_;          // the index of each master's parameter among them
  std::int64_t round_ = 0;                    // number of steps that were not undone
  at::Tensor key_;               // the key of the present round, for rounding by operators
  at::Tensor hash_, temporary_;  // scratch for rounding by operators
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/bf16_true.ipp>
#endif
