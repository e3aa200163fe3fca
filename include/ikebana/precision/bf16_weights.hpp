#pragma once
// Defines the policy Precision<BF16Weights> and its mechanism.
#include <ikebana/model/rule.hpp>
#include <ikebana/precision/low_precision_weights.hpp>

namespace ikebana {

/// FP32 master weights and gathered BF16 parameters, which stay between steps: units compute with
/// the BF16 parameters, gradients are summed in FP32, and the optimizer updates the FP32 masters.
/// Everything else computes as in Precision<BF16>. Cost: 2 bytes per weight more than
/// Precision<BF16>, but no cast of each weight in every microbatch. Parameters for which
/// `keep_fp32` is true compute in FP32. A step throws BadModel if it does not run a unit by `run`;
/// with `allow_unused_units` it may leave units out. Source: FSDP2's
/// MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32).
template <>
struct Precision<BF16Weights> {
  ParameterRule keep_fp32 = biases_and_norms;       ///< parameters that compute in FP32
  bool allow_unused_units = false;                  ///< a step may leave units out
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <>
struct Mechanism<Precision<BF16Weights>> : detail::LowPrecisionWeights {
  static constexpr bool moves_parameters = true, keeps_gathered = true;
  using carries_out = Precision<BF16Weights>;
  Precision<BF16Weights> values;
  explicit Mechanism(Precision<BF16Weights> v) : values(std::move(v)) {}

  void attach(c10::Device where, const UnitTable& table);
  Tensors to_masters(const Unit&, Tensors full);
  /// Reuses the memory of the previous gather unless it was freed.
  Tensors gather(const Unit& unit, Tensors masters);
  /// Writes to the memory of the last gather. Allocates nothing on a CPU.
  void refresh(const Unit& unit, const Tensors& masters) { copy(masters, gathered_[unit.index]); }
  at::ScalarType reduce_dtype(at::ScalarType parameter) const;
  Tensors restore_dtype(const Unit& unit, Tensors masters);
  Tensors reduce(const Unit&, Tensors gradients);
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    check_rule(values.keep_fp32);
  }
  std::string describe() const;

 private:
  /// The gathered parameters of a unit.
  struct Gathered {
    Tensors parameters;
    std::vector<bool> is_bf16;  // whether it is BF16, for each parameter
  };

  /// Copies each dtype by itself, since a list of one dtype is one kernel.
  void copy(const Tensors& masters, const Gathered& gathered);
  void copy_all();
  Gathered allocate(const Unit& unit, const Tensors& masters) const;
  static bool is_freed(const Tensors& tensors);

  std::vector<Gathered> gathered_;  // the gathered parameters, by unit
  Tensors to_, from_;               // scratch
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/bf16_weights.ipp>
#endif
