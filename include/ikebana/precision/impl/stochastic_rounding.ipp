#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/precision/stochastic_rounding.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RoundingKey RoundingKey::of(std::int64_t seed, std::int64_t round,
                                           std::size_t tensor) {
  const std::uint64_t of_round = key(key(seed) + static_cast<std::uint64_t>(round));
  return {static_cast<std::uint32_t>(of_round >> 32), static_cast<std::uint32_t>(of_round),
          static_cast<std::uint32_t>(key(tensor))};
}

IKEBANA_INLINE std::uint32_t RoundingHash::of(std::uint32_t index, RoundingKey key) {
  std::uint32_t h = index ^ key.first ^ key.tensor;
  h *= multiply[0], h ^= h >> shift[0], h += key.second;
  h *= multiply[1], h ^= h >> shift[1];
  h *= multiply[2], h ^= h >> shift[2];
  return h;
}

/// Returns the upper half of a float's bits after noise is added to the lower half. Infinities and
/// NaN get no noise. A value that BF16 represents has a lower half of zeros, so it never changes.
inline std::uint16_t rounded_bits(std::uint32_t bits, std::uint32_t noise) {
  constexpr std::uint32_t exponent = 0x7F800000u;
  std::uint32_t finite = (bits & exponent) != exponent;
  return static_cast<std::uint16_t>((bits + finite * (noise & 0xFFFFu)) >> 16);
}

IKEBANA_INLINE void round_on_cpu(const at::Tensor& to, const at::Tensor& exact, RoundingKey key,
                                 std::int64_t first) noexcept {
  auto* out = data_of<std::uint16_t>(to);
  const auto* in = data_of<std::uint32_t>(exact);
  in_parallel(out, exact.numel(), 1 << 15, [=](std::int64_t begin, std::int64_t end) noexcept {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = rounded_bits(in[i], RoundingHash::of(static_cast<std::uint32_t>(first + i), key));
  });
}

IKEBANA_INLINE void RoundByOperators::operator()(const at::Tensor& to, const at::Tensor& exact,
                                                 const at::Tensor& key, std::uint32_t tensor,
                                                 std::int64_t first) {
  at::Tensor bits = exact.view(at::kInt);
  at::arange_out(hash_, exact.numel());
  if (first != 0) hash_.add_(as_int(static_cast<std::uint32_t>(first)));
  hash_.bitwise_xor_(key[0]).bitwise_xor_(as_int(tensor));
  mix_round(0), hash_.add_(key[1]), mix_round(1), mix_round(2);
  hash_.bitwise_and_(0xFFFF);
  at::bitwise_and_out(temporary_, bits, at::Scalar(0x7F800000));
  hash_.mul_(temporary_.ne_(0x7F800000)).add_(bits).bitwise_right_shift_(16);
  to.view(at::kShort).copy_(hash_);
}

IKEBANA_INLINE void RoundByOperators::mix_round(int i) {
  const int shift = RoundingHash::shift[i];
  hash_.mul_(as_int(RoundingHash::multiply[i]));
  temporary_.copy_(hash_).bitwise_right_shift_(shift);  // extends the sign, so it is masked off
  hash_.bitwise_xor_(temporary_.bitwise_and_((std::int64_t{1} << (32 - shift)) - 1));
}

}  // namespace ikebana::detail
