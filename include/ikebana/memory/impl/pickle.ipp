#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/pickle.hpp>
#include <ikebana/state/files/json.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t n = Json::utf8_length(text);
    n == 0 ? valid += '?' : valid.append(text.substr(0, n));
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return valid;
}

IKEBANA_INLINE void Pickle::address(std::uint64_t value) {
  bytes_ += "\x8a\x09", little_endian(static_cast<std::int64_t>(value), 8), bytes_ += '\0';
}

IKEBANA_INLINE void Pickle::real(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  bytes_ += 'G';
  for (int shift = 56; shift >= 0; shift -= 8) bytes_ += static_cast<char>(bits >> shift);
}

IKEBANA_INLINE void Pickle::pair(std::int64_t first, std::int64_t second) {
  integer(first), integer(second), bytes_ += '\x86';
}

IKEBANA_INLINE void Pickle::text(std::string_view text) {
  const auto [at, is_new] = texts_.try_emplace(std::string(text), next_);
  if (!is_new) return get(at->second);
  const std::string valid = valid_utf8(text);
  bytes_ += 'X', little_endian(static_cast<std::int64_t>(valid.size()), 4), bytes_ += valid;
  remember();
}

IKEBANA_INLINE std::uint32_t Pickle::remember() {
  bytes_ += 'r', little_endian(next_, 4);
  return next_++;
}

IKEBANA_INLINE void Pickle::little_endian(std::int64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
}

}  // namespace ikebana::detail
