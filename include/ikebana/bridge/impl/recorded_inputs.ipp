#pragma once
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE c10::ArrayRef<const c10::IValue> recorded_inputs(
    const at::RecordFunction& function) {
  return member_of(function, detail::Inputs());
}

}  // namespace ikebana::bridge
