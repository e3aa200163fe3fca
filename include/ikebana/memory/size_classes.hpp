#pragma once
// The sizes of the blocks of a pool.
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ikebana::detail {

/// Sizes in bytes, eight for each doubling, from 128 bytes on: a block is at most an eighth larger
/// than what is asked for, or 64 bytes where that is more. Multiples of 64 up to 1 KiB.
struct SizeClasses {
  static constexpr std::size_t smallest = 128;
  static constexpr int first_power = 7, last_power = 40;
  static constexpr std::uint32_t count = 8 * (last_power - first_power) + 1;
  /// Of what is larger than the largest class, 1 TiB.
  static constexpr std::uint32_t none = count;

  static constexpr std::uint32_t of(std::size_t bytes) noexcept {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    if (rounded <= smallest) return 0;
    const int power = static_cast<int>(std::bit_width(rounded - 1)) - 1;
    if (power >= last_power) return none;
    const int step = power - 3;
    const std::size_t above = rounded - (std::size_t{1} << power);
    const std::size_t eighths = (above + (std::size_t{1} << step) - 1) >> step;
    return static_cast<std::uint32_t>(8 * (power - first_power)) +
           static_cast<std::uint32_t>(eighths);
  }
  static constexpr std::size_t size(std::uint32_t size_class) noexcept {
    if (size_class == 0) return smallest;
    const std::uint32_t power = (size_class - 1) / 8 + first_power;
    const std::size_t eighths = (size_class - 1) % 8 + 1;
    return (std::size_t{1} << power) + (eighths << (power - 3));
  }
};

}  // namespace ikebana::detail
