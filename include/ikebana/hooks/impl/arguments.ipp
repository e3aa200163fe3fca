#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const char* phase_name(Phase phase) {
  constexpr const char* names[] = {"data", "forward", "backward", "optimizer"};
  return names[static_cast<std::size_t>(phase)];
}

IKEBANA_INLINE Tensors detached(const Tensors& tensors) {
  Tensors values;
  for (const auto& t : tensors) values.push_back(t.detach());
  return values;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE at::Tensor elements_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

IKEBANA_INLINE void for_windows(StateStorage* storage, const Tensors& tensors, bool writes,
                                c10::function_ref<void(const Tensors&)> f) {
  const std::int64_t limit = storage == nullptr ? 0 : storage->window_bytes();
  if (limit <= 0) return f(tensors);
  Tensors window;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    window.push_back(tensors[i]);
    bytes += static_cast<std::int64_t>(elements_of(tensors[i]).nbytes());
    if (bytes < limit && i + 1 < tensors.size()) continue;
    storage->begin_use(window, writes);
    f(window);
    storage->end_use(window);
    window.clear(), bytes = 0;
  }
}

IKEBANA_INLINE void StepGradients::collect(const Tensors& masters) {
  indices.clear(), values.clear();
  divisor.reset(), norm.reset(), squared_norm.reset(), found_inf.reset();
  protocol.overflow.reset(), protocol.finite.clear();
  norm_is_current = protocol.loss_is_scaled = protocol.updated_in_backward = false;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const at::Tensor& gradient = masters[i].grad();
    if (!gradient.defined()) continue;
    indices.push_back(i);
    values.push_back(gradient.is_sparse() ? gradient.coalesce() : gradient);
  }
}

IKEBANA_INLINE std::uint64_t StepGradients::hash_of_indices() const noexcept {
  std::uint64_t hash = indices.size();
  for (const std::size_t i : indices) hash = hash * 0x9E3779B97F4A7C15 + i;
  return hash;
}

IKEBANA_INLINE void StepGradients::divide(const at::Tensor& d) {
  const at::Tensor here = where_values_are(d);
  divisor = divisor.defined() ? divisor * here : here;
}

IKEBANA_INLINE void StepGradients::apply_divisor() {
  if (divisor.defined())
    in_windows(/*writes=*/true, [&](const Tensors& gradients) {
      for (const at::Tensor& gradient : gradients) elements_of(gradient).div_(divisor);
    });
  divisor.reset();
}

IKEBANA_INLINE at::ScalarType StepGradients::divisor_dtype() const {
  for (const at::Tensor& gradient : values)
    if (gradient.scalar_type() == at::kDouble) return at::kDouble;
  return at::kFloat;
}

IKEBANA_INLINE void StepGradients::reject(const at::Tensor& flag) {
  const at::Tensor here = where_values_are(flag);
  found_inf = found_inf.defined() ? at::maximum(found_inf, here) : here;
}

IKEBANA_INLINE bool StepGradients::checks_later(const at::Tensor& number) const {
  return !number.is_cpu() && !detail::recording() && !values.empty() &&
         values[0].device() == number.device();
}

IKEBANA_INLINE at::Tensor StepGradients::where_values_are(const at::Tensor& number) const {
  if (values.empty() || values[0].device() == number.device()) return number;
  return number.to(values[0].device());
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE bool is_rounded(const UpdateRounding* rounding, const at::Tensor& p) {
  return rounding != nullptr && p.scalar_type() == at::kBFloat16;
}

IKEBANA_INLINE at::Tensor in_memory_order(const at::Tensor& t) {
  return t.detach().as_strided({t.numel()}, {1});
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Masters::add(std::string name, at::Tensor value, Slice slice,
                                 std::vector<std::string> others) {
  names.push_back(std::move(name)), values.push_back(std::move(value));
  slices.push_back(std::move(slice));
  add_names(std::move(others));
}

IKEBANA_INLINE void Masters::add(const Masters& others, std::size_t i) {
  names.push_back(others.names[i]), values.push_back(others.values[i]);
  if (!others.slices.empty()) slices.push_back(others.slices[i]);
  add_names(others.others_of(i));
}

IKEBANA_INLINE std::vector<std::string> Masters::others_of(std::size_t i) const {
  return i < other_names.size() ? other_names[i] : std::vector<std::string>();
}

IKEBANA_INLINE Masters Masters::only(std::size_t i) const {
  Masters one;
  one.rounding = rounding, one.storage = storage, one.first = first + i, one.ranks = ranks;
  return one.add(*this, i), one;
}

IKEBANA_INLINE at::Tensor Masters::whole(std::size_t i) const {
  if (is_whole(i)) return values[i];
  return at::empty(slices[i].sizes, values[i].options().device(at::kMeta))
      .set_requires_grad(values[i].requires_grad());
}

IKEBANA_INLINE void Masters::add_names(std::vector<std::string> others) {
  if (others.empty()) return;
  other_names.resize(names.size());
  other_names.back() = std::move(others);
}

}  // namespace ikebana
