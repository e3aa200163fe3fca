#pragma once
// Where an operator makes its results.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/tensor_values.hpp>

namespace ikebana::bridge {

/// The device on which an operator makes its results: the one that it is given, or that of its
/// first argument with dimensions.
inline c10::Device device_of(const OperatorCall& call) {
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
/// True within `torch::tensor`, which alone calls `empty` under this guard, and writes to the
/// memory itself.
inline bool is_for_host_values(const OperatorCall& call) {
  return call.name().name == "aten::empty" &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

}  // namespace ikebana::bridge
