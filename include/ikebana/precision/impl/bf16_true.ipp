#pragma once
#include <algorithm>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/bf16_true.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Precision<BF16True>>::~Mechanism() {
  for (const Converted& converted : converted_) try {
      restore(converted);
    } catch (const std::exception& error) {
      TORCH_WARN("ikebana: a parameter of shape ", converted.parameter.sizes(),
                 " stays BFloat16: ", error.what());
    }
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::attach(c10::Device where,
                                                           const UnitTable& table) {
  LowPrecisionWeights::attach("Precision<BF16True>", where, values.cpu_products);
  choose(table, values.keep_fp32);
  key_ = at::empty({2}, at::dtype(at::kInt).device(where));
  names_.clear();
  for (const Unit& unit : table.units())
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const at::Tensor& p = unit.parameters[i];
      names_.push_back(unit.names[i]);
      if (!is_low(unit, i, unit.parameters.size()) || p.scalar_type() == at::kBFloat16) continue;
      converted_.push_back({p, p.detach(), p.scalar_type()});
      convert(p, at::kBFloat16);
    }
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::begin(const Masters& masters) {
  first_elements_.clear(), numbers_.clear();
  for (const Slice& slice : masters.slices) first_elements_.push_back(slice.first_element());
  auto found = names_.begin();  // masters are in the same order
  for (const std::string& name : masters.names) {
    if (found = std::find(found, names_.end(), name); found == names_.end())
      found = std::find(names_.begin(), names_.end(), name);
    numbers_.push_back(static_cast<std::size_t>(found - names_.begin()));
  }
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::prepare_rounding(
    const at::TensorOptions& options, std::int64_t max_elements) {
  if (detail::on_host(key_)) return;
  for (at::Tensor* scratch : {&hash_, &temporary_})
    if (!scratch->defined() || scratch->numel() < max_elements)
      *scratch = at::empty({max_elements}, options.dtype(at::kInt));
  set_key();
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::write(const at::Tensor& parameter,
                                                          const at::Tensor& exact,
                                                          std::size_t index) noexcept {
  auto key = detail::RoundingKey::of(values.seed, round_, number_of(index));
  const std::int64_t first = first_elements_.empty() ? 0 : first_elements_[index];
  if (detail::on_host(parameter)) return detail::round_on_cpu(parameter, exact, key, first);
  std::int64_t n = exact.numel();
  detail::RoundByOperators round(hash_.narrow(0, 0, n), temporary_.narrow(0, 0, n));
  round(parameter, exact, key_, key.tensor, first);
}

IKEBANA_INLINE std::string Mechanism<Precision<BF16True>>::describe() const {
  return with_products("BFloat16 weights without masters, stochastic rounding, autocast");
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::state(Archive& archive, const Masters&) {
  archive.number("seed", values.seed);
  archive.number("round", round_, &count_range);
}

IKEBANA_INLINE std::size_t Mechanism<Precision<BF16True>>::number_of(std::size_t master) const {
  return master < numbers_.size() ? numbers_[master] : master;
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::set_key() {
  const auto key = detail::RoundingKey::of(values.seed, round_, 0);
  const std::int32_t bits[] = {detail::RoundByOperators::as_int(key.first),
                               detail::RoundByOperators::as_int(key.second)};
  if (key_.is_cpu()) std::copy_n(bits, 2, key_.data_ptr<std::int32_t>());
  else if (!detail::recording()) key_[0].fill_(bits[0]), key_[1].fill_(bits[1]);
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::restore(const Converted& c) {
  // A slice: its trainer has ended, and its former values with it, or it never had any.
  if (detail::is_away(c.parameter) || detail::without_values()) return;
  at::Tensor parameter = c.parameter;
  if (c.before.defined() && parameter.detach().equal(c.before.to(at::kBFloat16)))
    parameter.set_data(c.before);
  else convert(parameter, c.type);
}

IKEBANA_INLINE void Mechanism<Precision<BF16True>>::convert(at::Tensor parameter,
                                                            at::ScalarType type) {
  parameter.set_data(parameter.detach().to(type));
}

}  // namespace ikebana
