#pragma once
#include <cstring>
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::uint64_t content_hash(const at::Tensor& t) {
  const at::Tensor bytes = dense(t);
  auto from = static_cast<const char*>(bytes.const_data_ptr());
  std::uint64_t hash = key(static_cast<std::uint64_t>(t.scalar_type()), bytes.nbytes());
  for (const std::int64_t size : t.sizes()) hash = key(hash, size);
  std::uint64_t word = 0;
  std::size_t left = bytes.nbytes();
  for (; left >= sizeof word; from += sizeof word, left -= sizeof word) {
    std::memcpy(&word, from, sizeof word);
    hash = (hash ^ word) * 0x9FB21C651E98DF25u;
    hash ^= hash >> 29;
  }
  word = 0;
  if (left > 0) std::memcpy(&word, from, left);
  return key(hash, word);
}

}  // namespace ikebana::detail
