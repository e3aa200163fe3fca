#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/fake/operator_device.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE c10::Device device_of(const OperatorCall& call) {
  for (const c10::IValue& value : call.arguments())
    if (value.isDevice()) return value.toDevice();
  c10::Device device = at::kCPU;
  bool found = false;
  ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
    if (found) return;
    device = t.device(), found = t.dim() > 0;
  });
  return device;
}

IKEBANA_INLINE bool is_for_host_values(const OperatorCall& call) {
  return call.name().name == "aten::empty" &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

}  // namespace ikebana::bridge
