#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void UpdateCopies::keep(const at::Tensor& t) {
  const at::Tensor own = t.detach();
  add({own, {}, own.clone(), is_flat(own), true});
}

IKEBANA_INLINE void UpdateCopies::reserve(const at::Tensor& t) {
  const at::Tensor own = t.detach();
  add({own, {}, at::empty_like(own), is_flat(own)});
}

IKEBANA_INLINE void UpdateCopies::reserve_rows(const at::Tensor& t, const at::Tensor& index) {
  const at::Tensor own = t.detach();
  at::DimVector sizes(own.sizes());
  sizes[0] = index.numel();
  const bool flat = !without_values() && own.is_cpu() && own.is_contiguous();
  add({own, index.contiguous(), at::empty(sizes, own.options()), flat});
}

IKEBANA_INLINE void UpdateCopies::take() {
  for (Copy& copy : all_) {
    if (copy.is_taken) continue;
    if (!copy.rows.defined()) copy.before.copy_(copy.changed);
    else at::index_select_out(copy.before, copy.changed, 0, copy.rows);
    copy.is_taken = true;
  }
}

IKEBANA_INLINE bool UpdateCopies::any_taken() const {
  return std::ranges::any_of(all_, [](const Copy& copy) { return copy.is_taken; });
}

IKEBANA_INLINE void UpdateCopies::put_back_if(const at::Tensor& flag) const {
  if (all_.empty()) return;
  const at::Tensor rejected = flag.ne(0);
  for (const Copy& copy : all_) {
    at::Tensor changed = copy.changed;
    if (changed.is_cpu() && !flag.is_cpu()) continue;
    const at::Tensor here = rejected.to(changed.device());
    if (!copy.rows.defined()) at::where_out(changed, here, copy.before, changed);
    else
      changed.index_copy_(0, copy.rows,
                          at::where(here, copy.before, changed.index_select(0, copy.rows)));
  }
}

IKEBANA_INLINE void UpdateCopies::put_back() noexcept {
  at::NoGradGuard no_grad;
  for (const Copy& copy : all_)
    if (copy.is_taken) put_back(copy);
  all_.clear();
}

IKEBANA_INLINE void UpdateCopies::clear_device() noexcept {
  std::erase_if(all_, [](const Copy& copy) { return !copy.changed.is_cpu(); });
}

IKEBANA_INLINE void UpdateCopies::put_back(const Copy& copy) {
  const at::Tensor changed = copy.changed;
  if (!copy.flat) {
    if (!copy.rows.defined()) changed.copy_(copy.before);
    else changed.index_copy_(0, copy.rows, copy.before);
    return;
  }
  if (!copy.rows.defined()) return copy_flat(changed, copy.before);
  auto* to = static_cast<char*>(changed.mutable_data_ptr());
  const auto* from = static_cast<const char*>(copy.before.const_data_ptr());
  const auto rows = static_cast<std::size_t>(copy.rows.numel());
  const std::size_t bytes = rows == 0 ? 0 : copy.before.nbytes() / rows;
  const auto* index = static_cast<const std::int64_t*>(copy.rows.const_data_ptr());
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(to + static_cast<std::size_t>(index[i]) * bytes, from + i * bytes, bytes);
}

}  // namespace ikebana::detail
