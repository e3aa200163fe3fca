#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/run/dry_listener.hpp>

namespace ikebana::detail {

IKEBANA_INLINE DryUnit::~DryUnit() {
  if (listener_ != nullptr) listener_->end_unit();
}

}  // namespace ikebana::detail
