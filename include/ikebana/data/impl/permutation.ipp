#pragma once
#include <bit>
#include <cstddef>
#include <ikebana/data/permutation.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>

namespace ikebana {

IKEBANA_INLINE Permutation::Permutation(std::int64_t n, std::uint64_t key)
    : n_(static_cast<std::uint64_t>(n)) {
  int bits = n > 1 ? static_cast<int>(std::bit_width(n_ - 1)) : 0;
  column_bits_ = (bits + 1) / 2;
  columns_ = std::uint64_t{1} << column_bits_;
  rows_ = (n_ + columns_ - 1) >> column_bits_;
  rounds_ = bits < 8 ? 32 : 8;  // few bits mix little: the tests detect fewer than 8 rounds
  for (std::size_t round = 0; round < rounds_; ++round)
    keys_[round] = detail::mix(key += detail::golden);
}

IKEBANA_INLINE std::int64_t Permutation::operator[](std::int64_t position) const {
  auto cell = static_cast<std::uint64_t>(position);
  do cell = network(cell);
  while (cell >= n_);
  return static_cast<std::int64_t>(cell);
}

IKEBANA_INLINE std::uint64_t Permutation::network(std::uint64_t cell) const {
  std::uint64_t row = cell >> column_bits_, column = cell & (columns_ - 1);
  for (std::size_t round = 0; round < rounds_; round += 2) {
    row += ((detail::mix(column ^ keys_[round]) >> 32) * rows_) >> 32;  // less than rows_
    if (row >= rows_) row -= rows_;
    column ^= detail::mix(row ^ keys_[round + 1]) & (columns_ - 1);
  }
  return row << column_bits_ | column;
}

}  // namespace ikebana
