#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/bf16_weights.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Precision<BF16Weights>>::attach(c10::Device where,
                                                              const UnitTable& table) {
  LowPrecisionWeights::attach("Precision<BF16Weights>", where, values.cpu_products);
  choose(table, values.keep_fp32);
  gathered_.assign(table.units().size(), {});
}

IKEBANA_INLINE Tensors Mechanism<Precision<BF16Weights>>::to_masters(const Unit&, Tensors full) {
  for (auto& t : full)
    if (is_float(t.scalar_type())) t = t.to(at::kFloat);
  return full;
}

IKEBANA_INLINE Tensors Mechanism<Precision<BF16Weights>>::gather(const Unit& unit,
                                                                 Tensors masters) {
  Gathered& gathered = gathered_[unit.index];
  if (gathered.parameters.size() != masters.size() || is_freed(gathered.parameters))
    gathered = allocate(unit, masters);
  copy(masters, gathered);
  return gathered.parameters;
}

IKEBANA_INLINE at::ScalarType Mechanism<Precision<BF16Weights>>::reduce_dtype(
    at::ScalarType parameter) const {
  return is_float(parameter) ? at::kFloat : parameter;
}

IKEBANA_INLINE Tensors Mechanism<Precision<BF16Weights>>::restore_dtype(const Unit& unit,
                                                                        Tensors masters) {
  for (std::size_t i = 0; i < masters.size(); ++i)
    masters[i] = masters[i].to(original_dtype(unit, i, masters.size()));
  return masters;
}

IKEBANA_INLINE Tensors Mechanism<Precision<BF16Weights>>::reduce(const Unit&, Tensors gradients) {
  for (auto& t : gradients)
    if (t.defined() && is_float(t.scalar_type())) t = t.to(at::kFloat);
  return gradients;
}

IKEBANA_INLINE std::string Mechanism<Precision<BF16Weights>>::describe() const {
  return with_products("BFloat16 parameters, Float32 master weights, autocast");
}

IKEBANA_INLINE void Mechanism<Precision<BF16Weights>>::copy(const Tensors& masters,
                                                            const Gathered& gathered) {
  for (bool is_bf16 : {false, true}) {
    to_.clear(), from_.clear();
    for (std::size_t i = 0; i < masters.size(); ++i)
      if (gathered.is_bf16[i] == is_bf16)
        to_.push_back(gathered.parameters[i]), from_.push_back(masters[i]);
    copy_all();
  }
}

IKEBANA_INLINE void Mechanism<Precision<BF16Weights>>::copy_all() {
  if (to_.empty()) return;
  if (!to_[0].is_cpu()) return at::_foreach_copy_(to_, from_);
  for (std::size_t i = 0; i < to_.size(); ++i) to_[i].copy_(from_[i]);  // allocates nothing
}

IKEBANA_INLINE Mechanism<Precision<BF16Weights>>::Gathered Mechanism<
    Precision<BF16Weights>>::allocate(const Unit& unit, const Tensors& masters) const {
  Gathered gathered;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    bool low = masters[i].scalar_type() == at::kFloat && is_low(unit, i, masters.size());
    auto type = low ? at::kBFloat16 : masters[i].scalar_type();
    gathered.is_bf16.push_back(low);
    gathered.parameters.push_back(at::empty_like(masters[i], masters[i].options().dtype(type)));
  }
  return gathered;
}

IKEBANA_INLINE bool Mechanism<Precision<BF16Weights>>::is_freed(const Tensors& tensors) {
  for (const auto& t : tensors)
    if (detail::is_away(t)) return true;
  return false;
}

}  // namespace ikebana
