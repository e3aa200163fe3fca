#pragma once
#include <ikebana/detail/flag_copy.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE FlagCopy::FlagCopy(const at::Tensor& flag)
    : host_(at::empty({}, flag.options().device(at::kCPU).pinned_memory(true))),
      arrived_(flag.device().type()) {
  ask(flag);
}

IKEBANA_INLINE bool FlagCopy::fits(const at::Tensor& flag) const {
  return host_.dtype() == flag.dtype() && arrived_.device_type() == flag.device().type() &&
         (arrived_.device_index() < 0 || arrived_.device_index() == flag.device().index());
}

IKEBANA_INLINE void FlagCopy::ask(const at::Tensor& flag) {
  host_.copy_(flag, /*non_blocking=*/true);
  arrived_.record(c10::impl::VirtualGuardImpl(flag.device().type()).getStream(flag.device()));
}

IKEBANA_INLINE bool FlagCopy::wait() {
  arrived_.synchronize();
  return number_on_host(host_) != 0;
}

}  // namespace ikebana::detail
