#pragma once
// Where an operator makes its results.
#include <ikebana/bridge/operators.hpp>

namespace ikebana::bridge {

/// The device on which an operator makes its results: the one that it is given, or that of its
/// first argument with dimensions.
c10::Device device_of(const OperatorCall& call);
/// True within `torch::tensor`, which alone calls `empty` under this guard, and writes to the
/// memory itself.
bool is_for_host_values(const OperatorCall& call);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/operator_device.ipp>
#endif
