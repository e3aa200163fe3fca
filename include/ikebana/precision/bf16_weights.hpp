#pragma once
#include <ikebana/precision/low_weights.hpp>

namespace ikebana {

/// BF16 working weights, FP32 masters: each unit computes with BF16 copies that stay between steps,
/// gradients come home in FP32 and add up there, and the update is made in FP32. The rest of
/// forward is Precision<BF16>'s autocast. Costs 2 bytes a weight more than Precision<BF16>, and
/// saves casting each weight in every microbatch; under Shard, BF16 is what is gathered.
/// Parameters that `keep_fp32` names compute in FP32. Source: FSDP2's MixedPrecisionPolicy(
/// param_dtype=torch.bfloat16, reduce_dtype=torch.float32).
template <>
struct Precision<BF16Weights> {
  ParameterRule keep_fp32 = one_dimensional;
};

template <>
struct Mechanism<Precision<BF16Weights>> : detail::LowWeights {
  static constexpr bool keeps_gathered = true;
  Precision<BF16Weights> values;
  explicit Mechanism(Precision<BF16Weights> v) : values(std::move(v)) {}

  void attach(c10::Device where, const UnitTable& table) {
    LowWeights::attach(where, table);
    choose(table, values.keep_fp32);
    copies_.assign(table.units().size(), {});
  }
  Tensors to_masters(const Unit&, Tensors full) {
    for (auto& t : full)
      if (is_float(t.scalar_type())) t = t.to(at::kFloat);
    return full;
  }
  /// Into the memory of last time, where it is still there.
  Tensors gather(const Unit& unit, Tensors masters) {
    Copies& copies = copies_[unit.index];
    if (copies.working.size() != masters.size() || emptied(copies.working))
      copies = made(unit, masters);
    for (bool low : {false, true}) copies.copy(masters, low);
    return copies.working;
  }
  Tensors restore_dtype(const Unit& unit, Tensors masters) {
    for (std::size_t i = 0; i < masters.size(); ++i)
      masters[i] = masters[i].to(former_type(unit, i, masters.size()));
    return masters;
  }
  Tensors reduce(const Unit&, Tensors gradients) {
    for (auto& t : gradients)
      if (t.defined() && is_float(t.scalar_type())) t = t.to(at::kFloat);
    return gradients;
  }
  std::string describe() const { return "BFloat16 working weights, Float32 masters, autocast"; }

 private:
  /// A unit's working copies, and which of them are cast: a list of one type is one kernel.
  struct Copies {
    Tensors working;
    std::vector<bool> low;

    void copy(const Tensors& masters, bool which) {
      Tensors to, from;
      for (std::size_t i = 0; i < low.size(); ++i)
        if (low[i] == which) to.push_back(working[i]), from.push_back(masters[i]);
      if (!to.empty()) at::_foreach_copy_(to, from);
    }
  };

  Copies made(const Unit& unit, const Tensors& masters) const {
    Copies copies;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      bool low = masters[i].scalar_type() == at::kFloat && is_low(unit, i, masters.size());
      auto type = low ? at::kBFloat16 : masters[i].scalar_type();
      copies.low.push_back(low);
      copies.working.push_back(at::empty_like(masters[i], masters[i].options().dtype(type)));
    }
    return copies;
  }
  static bool emptied(const Tensors& tensors) {
    for (const auto& t : tensors)
      if (t.numel() > 0 && t.storage().nbytes() == 0) return true;
    return false;
  }

  std::vector<Copies> copies_;  // by unit
};

}  // namespace ikebana
