#pragma once
// Defines FNV-1a, a hash of a sequence of bytes or numbers, which is updated with each of them.
// Source: Fowler, Noll and Vo.
#include <cstdint>
#include <string_view>

namespace ikebana::detail {

/// The hash of an empty sequence.
inline constexpr std::uint64_t fnv1a_start = 0xcbf29ce484222325;

/// Returns the hash of a sequence that is followed by `value`; `hash` is that of the sequence.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3;
}
/// Returns the hash of a sequence that is followed by the bytes of `text`.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = fnv1a(hash, std::uint64_t{static_cast<unsigned char>(c)});
  return hash;
}

}  // namespace ikebana::detail
