#pragma once
// Reads the inputs of an operator that LibTorch's record functions observe.
#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

namespace detail {
/// Gives access to a private member, which an explicit instantiation may name.
template <class Tag, auto member>
struct ShowMember {
  friend const auto& member_of(const at::RecordFunction& function, Tag) { return function.*member; }
};
struct Inputs {
  friend const auto& member_of(const at::RecordFunction&, Inputs);
};
template struct ShowMember<Inputs, &at::RecordFunction::inputs_>;
}  // namespace detail

/// Returns the arguments of a function that begins, for a callback with `needsInputs`; valid only
/// in the callback's first half. `RecordFunction::inputs()` returns the same, but in a program that
/// is compiled without NDEBUG it checks a flag that LibTorch's wheels, compiled with NDEBUG, never
/// set, and throws.
c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& function);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/recorded_inputs.ipp>
#endif
