#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/options.hpp>

namespace ikebana::detail {

IKEBANA_INLINE FitSettings::~FitSettings() = default;

IKEBANA_INLINE std::int64_t FitSettings::max_epochs() const {
  return epochs.value_or(max_steps ? std::numeric_limits<std::int64_t>::max() : 1);
}

}  // namespace ikebana::detail
