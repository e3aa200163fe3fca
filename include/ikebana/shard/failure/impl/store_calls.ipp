#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/store_calls.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace ikebana::detail
