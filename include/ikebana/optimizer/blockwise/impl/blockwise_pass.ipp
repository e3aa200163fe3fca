#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/blockwise/blockwise_pass.hpp>

namespace ikebana::detail {

IKEBANA_INLINE BlockRange BlockRange::of(const Slice& slice, std::int64_t block_size) {
  const std::int64_t row = slice.all_rows() == 0 ? 0 : slice.numel() / slice.all_rows();
  const std::int64_t begin = slice.first_element(), n = slice.rows.count * row, end = begin + n;
  const std::int64_t first = begin / block_size;
  if (n == 0) return {.first = first};
  return {.first = first,
          .count = (end - 1) / block_size - first + 1,
          .shift = begin % block_size,
          .elements = n,
          .shares_first = begin % block_size != 0,
          .shares_last = end % block_size != 0 && end != slice.numel()};
}

IKEBANA_INLINE std::pair<std::int64_t, std::int64_t> BlockRange::elements_of(
    std::int64_t block, std::int64_t block_size) const {
  const std::int64_t begin = std::max<std::int64_t>(0, block * block_size - shift);
  return {begin, std::min(elements, (block + 1) * block_size - shift) - begin};
}

IKEBANA_INLINE BlockRange BlockRange::of_whole(std::int64_t elements, std::int64_t block_size) {
  return {.count = (elements + block_size - 1) / block_size, .elements = elements};
}

IKEBANA_INLINE int BlockRange::edge(std::int64_t block) const {
  if (block == 0 && shares_first) return 0;
  return block == count - 1 && shares_last ? 1 : -1;
}

IKEBANA_INLINE std::int64_t BlockRange::block_at(int e) const {
  const std::int64_t block = e == 0 ? 0 : count - 1;
  return count > 0 && edge(block) == e ? block : -1;
}

IKEBANA_INLINE void encode_block(bool is_first_moment, const float* from, std::int64_t n,
                                 float largest, std::uint8_t* codes) noexcept {
  const DynamicMap& map = dynamic_map(is_first_moment);
  const float inverse = largest > min_scale ? 1 / largest : 0;
  if (is_first_moment)
    for (std::int64_t k = 0; k < n; ++k) codes[k] = map.code(from[k] * inverse);
  else
    for (std::int64_t k = 0; k < n; ++k)
      codes[k] = std::max<std::uint8_t>(map.code(from[k] * inverse), from[k] > 0);
}

}  // namespace ikebana::detail
