#pragma once
#include <algorithm>
#include <ikebana/core/not_trained.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void DeclaredTensors::add(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  if (all_.size() == all_.capacity())
    std::erase_if(all_, [](const Entry& entry) { return entry.expired(); });
  all_.emplace_back(tensor.getIntrusivePtr());
}

IKEBANA_INLINE bool DeclaredTensors::has(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  auto is_it = [&](const Entry& e) {
    return e._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  };
  return std::any_of(all_.begin(), all_.end(), is_it);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void not_trained(const at::Tensor& tensor) {
  if (!tensor.defined())
    throw BadValue("not_trained: the tensor is undefined. Give it one that requires a gradient.");
  detail::DeclaredTensors::get().add(tensor);
}

}  // namespace ikebana
