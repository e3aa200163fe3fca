#pragma once
#include <ikebana/average/windows.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool average_is_wide(const at::Tensor& value) {
  return at::isReducedFloatingType(value.scalar_type());
}

IKEBANA_INLINE at::Tensor average_like(const at::Tensor& value) {
  auto type = average_is_wide(value) ? at::kFloat : value.scalar_type();
  return at::empty_like(value.detach(), value.options().dtype(type).requires_grad(false));
}

IKEBANA_INLINE Tensors shared_like(const Tensors& all) {
  std::vector<at::Tensor> memory;
  auto of = [&](const at::Tensor& t) -> at::Tensor& {
    for (auto& m : memory)
      if (m.options().type_equal(t.options()) && m.device() == t.device()) return m;
    return memory.emplace_back(at::empty({0}, t.options()));
  };
  for (const auto& t : all)
    if (t.defined() && of(t).numel() < t.numel()) of(t) = at::empty({t.numel()}, t.options());
  Tensors views(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) views[i] = of(all[i]).as_strided(all[i].sizes(), all[i].strides());
  return views;
}

IKEBANA_INLINE void AverageWindow::add(std::size_t i, const at::Tensor& average,
                                       const at::Tensor& value) {
  indices.push_back(i), averages.push_back(average), values.push_back(value);
  bytes += static_cast<std::int64_t>(average.nbytes());
}

IKEBANA_INLINE void share_fp32(std::vector<AverageWindow>& windows) {
  Tensors all;
  for (const AverageWindow& some : windows)
    all.insert(all.end(), some.averages.begin(), some.averages.end());
  const Tensors scratch = shared_like(all);
  auto from = scratch.begin();
  for (AverageWindow& some : windows) {
    const auto to = from + static_cast<std::ptrdiff_t>(some.averages.size());
    some.as_fp32.assign(from, to);
    from = to;
  }
}

IKEBANA_INLINE AverageWindowInUse::AverageWindowInUse(StateStorage* storage,
                                                      const AverageWindow& some,
                                                      bool writes_values) noexcept
    : storage_(storage), some_(some) {
  if (storage_ == nullptr) return;
  storage_->begin_window(some_.averages);
  storage_->begin_use(some_.values, writes_values);
}

IKEBANA_INLINE AverageWindowInUse::~AverageWindowInUse() {
  if (storage_ == nullptr) return;
  storage_->end_window(some_.averages);
  storage_->end_use(some_.values);
}

}  // namespace ikebana::detail
