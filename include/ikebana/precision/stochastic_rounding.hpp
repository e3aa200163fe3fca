#pragma once
// FP32 to BF16 by chance: up with the probability of the part that is cut off, so that the mean of
// many roundings is the number itself. Random bits are a hash of (seed, round, tensor, index): no
// generator is drawn from, every rank rounds alike, and a resumed run needs two numbers.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// What the noise of one tensor in one round is made from.
struct RoundingKey {
  std::uint32_t first, second, tensor;

  static RoundingKey of(std::int64_t seed, std::int64_t round, std::size_t tensor) {
    std::uint64_t both =
        mixed(mixed(static_cast<std::uint64_t>(seed)) + static_cast<std::uint64_t>(round));
    return {static_cast<std::uint32_t>(both >> 32), static_cast<std::uint32_t>(both),
            static_cast<std::uint32_t>(mixed(tensor))};
  }

 private:
  /// Source: splitmix64, Steele, Lea and Flood, OOPSLA 2014.
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
};

/// The multipliers and shifts of the hash, which is computed in two ways below.
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

/// The upper half of a float's bits, after noise was added to the lower one. Infinities and NaN
/// get none. A number that BF16 holds has nothing in the lower half, so nothing is carried over.
inline std::uint16_t rounded_bits(std::uint32_t bits, std::uint32_t noise) {
  constexpr std::uint32_t exponent = 0x7F800000u;
  std::uint32_t finite = (bits & exponent) != exponent;
  return static_cast<std::uint16_t>((bits + finite * (noise & 0xFFFFu)) >> 16);
}

/// Rounds `exact` (FP32, contiguous, on the CPU) into `to` (BF16, contiguous), in one pass.
inline void round_on_cpu(const at::Tensor& to, const at::Tensor& exact, RoundingKey key) noexcept {
  auto* out = static_cast<std::uint16_t*>(to.mutable_data_ptr());
  const auto* in = static_cast<const std::uint32_t*>(exact.const_data_ptr());
  at::parallel_for(0, exact.numel(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = rounded_bits(in[i], RoundingHash::of(static_cast<std::uint32_t>(i), key));
  });
}

/// The same bits on any device, by operators that allocate nothing: `h` and `t` are INT32 tensors
/// of as many elements, `key` holds a key's two numbers where the tensors are.
class RoundByOperators {
 public:
  RoundByOperators(at::Tensor h, at::Tensor t) : h_(std::move(h)), t_(std::move(t)) {}

  void operator()(const at::Tensor& to, const at::Tensor& exact, const at::Tensor& key,
                  std::uint32_t tensor) {
    at::Tensor bits = exact.view(at::kInt);
    at::arange_out(h_, exact.numel());
    h_.bitwise_xor_(key[0]).bitwise_xor_(as_int(tensor));
    stir(0), h_.add_(key[1]), stir(1), stir(2);
    h_.bitwise_and_(0xFFFF);
    at::bitwise_and_out(t_, bits, at::Scalar(0x7F800000));
    h_.mul_(t_.ne_(0x7F800000)).add_(bits).bitwise_right_shift_(16);
    to.view(at::kShort).copy_(h_);
  }
  static std::int32_t as_int(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

 private:
  void stir(int i) {
    h_.mul_(as_int(RoundingHash::multiply[i]));
    t_.copy_(h_).bitwise_right_shift_(RoundingHash::shift[i]);  // copies the sign: cut it off
    h_.bitwise_xor_(t_.bitwise_and_((std::int64_t{1} << (32 - RoundingHash::shift[i])) - 1));
  }

  at::Tensor h_, t_;
};

}  // namespace ikebana::detail
