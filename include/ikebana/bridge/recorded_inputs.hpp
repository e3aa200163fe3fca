#pragma once
// The inputs of an operator that LibTorch's record functions observe.
#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

namespace detail {
/// An explicit instantiation may name a private member.
template <class Tag, auto member>
struct ShowMember {
  friend const auto& member_of(const at::RecordFunction& function, Tag) { return function.*member; }
};
struct Inputs {
  friend const auto& member_of(const at::RecordFunction&, Inputs);
};
template struct ShowMember<Inputs, &at::RecordFunction::inputs_>;
}  // namespace detail

/// The arguments of a function that begins, for a callback with `needsInputs`; valid in its first
/// half alone. `RecordFunction::inputs()` is the same, but where a program is compiled without
/// NDEBUG it checks a flag that LibTorch's wheels, compiled with it, never set, and throws.
c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& function);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/recorded_inputs.ipp>
#endif
