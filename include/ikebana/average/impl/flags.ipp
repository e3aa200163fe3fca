#pragma once
#include <ikebana/average/flags.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE AverageFlags AverageFlags::none() {
  AverageFlags flags;
  flags.is_rejected = true;
  return flags;
}

IKEBANA_INLINE void AverageFlags::count(at::Tensor& updates) const noexcept {
  if (!on_host) updates.add_(updates_on_device);
  else if (!is_rejected) *updates.data_ptr<std::int64_t>() += 1;
}

}  // namespace ikebana::detail
