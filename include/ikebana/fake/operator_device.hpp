#pragma once
// Finds the device on which an operator makes its results.
#include <ikebana/bridge/operators.hpp>

namespace ikebana::bridge {

/// Returns the device on which an operator makes its results: its device argument, or the device of
/// its first tensor with dimensions.
c10::Device device_of(const OperatorCall& call);
/// Returns true for the call of `empty` in `torch::tensor`, which writes to the memory itself; no
/// other code calls it under this guard.
bool is_for_host_values(const OperatorCall& call);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/operator_device.ipp>
#endif
