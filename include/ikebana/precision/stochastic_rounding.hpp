#pragma once
// Stochastic rounding from FP32 to BF16: up with the probability of the part that is cut off, so
// that the mean of many roundings is the value itself. The random bits are a hash of (seed, round,
// tensor, index): no generator is used, every rank rounds alike, and resuming needs two integers.
#include <ikebana/detail/parallel.hpp>
#include <ikebana/detail/splitmix.hpp>

namespace ikebana::detail {

/// Determines the noise of one tensor in one round.
struct RoundingKey {
  std::uint32_t first, second, tensor;

  static RoundingKey of(std::int64_t seed, std::int64_t round, std::size_t tensor) {
    const std::uint64_t of_round = key(key(seed) + static_cast<std::uint64_t>(round));
    return {static_cast<std::uint32_t>(of_round >> 32), static_cast<std::uint32_t>(of_round),
            static_cast<std::uint32_t>(key(tensor))};
  }
};

/// The hash of an element's index; its constants serve both implementations below.
struct RoundingHash {
  static constexpr std::uint32_t multiply[] = {0x9E3779B1u, 0x85EBCA6Bu, 0xC2B2AE35u};
  static constexpr int shift[] = {15, 13, 16};

  static std::uint32_t of(std::uint32_t index, RoundingKey key) {
    std::uint32_t h = index ^ key.first ^ key.tensor;
    h *= multiply[0], h ^= h >> shift[0], h += key.second;
    h *= multiply[1], h ^= h >> shift[1];
    h *= multiply[2], h ^= h >> shift[2];
    return h;
  }
};

/// The upper half of a float's bits after noise is added to the lower half. Infinities and NaN get
/// no noise. A value that BF16 represents has a lower half of zeros, so it never changes.
inline std::uint16_t rounded_bits(std::uint32_t bits, std::uint32_t noise) {
  constexpr std::uint32_t exponent = 0x7F800000u;
  std::uint32_t finite = (bits & exponent) != exponent;
  return static_cast<std::uint16_t>((bits + finite * (noise & 0xFFFFu)) >> 16);
}

/// Rounds `exact` (FP32, contiguous, on the CPU) into `to` (BF16, contiguous) in one pass. `first`:
/// the index of the first element, which is not 0 in a slice.
inline void round_on_cpu(const at::Tensor& to, const at::Tensor& exact, RoundingKey key,
                         std::int64_t first = 0) noexcept {
  auto* out = data_of<std::uint16_t>(to);
  const auto* in = data_of<std::uint32_t>(exact);
  in_parallel(out, exact.numel(), 1 << 15, [=](std::int64_t begin, std::int64_t end) noexcept {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = rounded_bits(in[i], RoundingHash::of(static_cast<std::uint32_t>(first + i), key));
  });
}

/// Gives the same bits on any device, by operators that allocate nothing. `hash` and `temporary`
/// are INT32 scratch of as many elements as are rounded; `key` holds a key's `first` and `second`
/// on their device.
class RoundByOperators {
 public:
  RoundByOperators(at::Tensor hash, at::Tensor temporary)
      : hash_(std::move(hash)), temporary_(std::move(temporary)) {}

  void operator()(const at::Tensor& to, const at::Tensor& exact, const at::Tensor& key,
                  std::uint32_t tensor, std::int64_t first = 0) {
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
  static std::int32_t as_int(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

 private:
  void mix_round(int i) {
    const int shift = RoundingHash::shift[i];
    hash_.mul_(as_int(RoundingHash::multiply[i]));
    temporary_.copy_(hash_).bitwise_right_shift_(shift);  // extends the sign, so it is masked off
    hash_.bitwise_xor_(temporary_.bitwise_and_((std::int64_t{1} << (32 - shift)) - 1));
  }

  at::Tensor hash_, temporary_;
};

}  // namespace ikebana::detail
