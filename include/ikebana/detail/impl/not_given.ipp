#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/not_given.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool is_given(double number) {
  return std::bit_cast<std::uint64_t>(number) != std::bit_cast<std::uint64_t>(not_given);
}

}  // namespace ikebana::detail
