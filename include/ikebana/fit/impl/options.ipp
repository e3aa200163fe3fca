#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/options.hpp>

namespace ikebana::detail {

IKEBANA_INLINE FitSettings::~FitSettings() = default;

}  // namespace ikebana::detail
