#pragma once
// The policy Precision<BF16Weights> and its mechanism.
#include <ikebana/detail/away.hpp>
#include <ikebana/precision/low_precision_weights.hpp>

namespace ikebana {

/// FP32 master weights and gathered BF16 parameters, which stay between steps: units compute with
/// the BF16 parameters, gradients are summed in FP32, and the optimizer updates the FP32 masters.
/// Everything else computes as in Precision<BF16>. Cost: 2 bytes per weight more than
/// Precision<BF16>, but no cast of each weight in every microbatch. Parameters for which
/// `keep_fp32` is true compute in FP32. A step throws BadModel for a unit that it does not run by
/// `run`; with `allow_unused_units` it may leave units out. Source: FSDP2's
/// MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32).
template <>
struct Precision<BF16Weights> {
  ParameterRule keep_fp32 = biases_and_norms;       ///< which compute in FP32
  bool allow_unused_units = false;                  ///< a step may leave units out
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <std::same_as<Precision<BF16Weights>> Policy>
struct Mechanism<Policy> : detail::LowPrecisionWeights {
  static constexpr bool moves_parameters = true, keeps_gathered = true;
  using carries_out = Precision<BF16Weights>;
  Precision<BF16Weights> values;
  explicit Mechanism(Precision<BF16Weights> v) : values(std::move(v)) {}

  void attach(c10::Device where, const UnitTable& table) {
    LowPrecisionWeights::attach("Precision<BF16Weights>", where, values.cpu_products);
    choose(table, values.keep_fp32);
    gathered_.assign(table.units().size(), {});
  }
  Tensors to_masters(const Unit&, Tensors full) {
    for (auto& t : full)
      if (is_float(t.scalar_type())) t = t.to(at::kFloat);
    return full;
  }
  /// Reuses the memory of the previous gather unless it was freed.
  Tensors gather(const Unit& unit, Tensors masters) {
    Gathered& gathered = gathered_[unit.index];
    if (gathered.parameters.size() != masters.size() || is_freed(gathered.parameters))
      gathered = allocate(unit, masters);
    copy(masters, gathered);
    return gathered.parameters;
  }
  /// Writes to the memory of the last gather. Allocates nothing on a CPU.
  void refresh(const Unit& unit, const Tensors& masters) { copy(masters, gathered_[unit.index]); }
  at::ScalarType reduce_dtype(at::ScalarType parameter) const {
    return is_float(parameter) ? at::kFloat : parameter;
  }
  Tensors restore_dtype(const Unit& unit, Tensors masters) {
    for (std::size_t i = 0; i < masters.size(); ++i)
      masters[i] = masters[i].to(original_dtype(unit, i, masters.size()));
    return masters;
  }
  Tensors reduce(const Unit&, Tensors gradients) {
    for (auto& t : gradients)
      if (t.defined() && is_float(t.scalar_type())) t = t.to(at::kFloat);
    return gradients;
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    check_rule(values.keep_fp32);
  }
  std::string describe() const {
    return this->with_products("BFloat16 parameters, Float32 master weights, autocast");
  }

 private:
  /// The gathered parameters of a unit.
  struct Gathered {
    Tensors parameters;
    std::vector<bool> is_bf16;  // of each
  };

  /// Copies each dtype by itself, since a list of one dtype is one kernel.
  void copy(const Tensors& masters, const Gathered& gathered) {
    for (bool is_bf16 : {false, true}) {
      to_.clear(), from_.clear();
      for (std::size_t i = 0; i < masters.size(); ++i)
        if (gathered.is_bf16[i] == is_bf16)
          to_.push_back(gathered.parameters[i]), from_.push_back(masters[i]);
      copy_all();
    }
  }
  void copy_all() {
    if (to_.empty()) return;
    if (!to_[0].is_cpu()) return at::_foreach_copy_(to_, from_);
    for (std::size_t i = 0; i < to_.size(); ++i) to_[i].copy_(from_[i]);  // allocates nothing
  }
  Gathered allocate(const Unit& unit, const Tensors& masters) const {
    Gathered gathered;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      bool low = masters[i].scalar_type() == at::kFloat && is_low(unit, i, masters.size());
      auto type = low ? at::kBFloat16 : masters[i].scalar_type();
      gathered.is_bf16.push_back(low);
      gathered.parameters.push_back(at::empty_like(masters[i], masters[i].options().dtype(type)));
    }
    return gathered;
  }
  static bool is_freed(const Tensors& tensors) {
    for (const auto& t : tensors)
      if (detail::is_away(t)) return true;
    return false;
  }

  std::vector<Gathered> gathered_;  // by unit
  Tensors to_, from_;               // scratch
};

}  // namespace ikebana
