#pragma once
// Rounds stochastically from FP32 to BF16. It rounds up with the probability of the part that is
// cut off, so that the mean of many roundings is the value itself. The random bits are a hash of
// (seed, round, tensor, index). No generator is used, every rank rounds alike, and resuming needs
// two integers.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Determines the noise of one tensor in one round.
struct RoundingKey {
  std::uint32_t first, second, tensor;

  static RoundingKey of(std::int64_t seed, std::int64_t round, std::size_t tensor);
};

/// The hash of an element's index; its constants serve both implementations below.
struct RoundingHash {
  static constexpr std::uint32_t multiply[] = {0x9E3779B1u, 0x85EBCA6Bu, 0xC2B2AE35u};
  static constexpr int shift[] = {15, 13, 16};

  static std::uint32_t of(std::uint32_t index, RoundingKey key);
};

/// Rounds `exact` (FP32, contiguous, on the CPU) into `to` (BF16, contiguous) in one pass. `first`
/// is the index of the first element, which is not 0 in a slice.
void round_on_cpu(const at::Tensor& to, const at::Tensor& exact, RoundingKey key,
                  std::int64_t first = 0) noexcept;

/// Gives the same bits on any device, by operators that allocate nothing. `hash` and `temporary`
/// are INT32 scratch of as many elements as are rounded; `key` holds a key's `first` and `second`
/// on their device.
class RoundByOperators {
 public:
  RoundByOperators(at::Tensor hash, at::Tensor temporary)
      : hash_(std::move(hash)), temporary_(std::move(temporary)) {}

  void operator()(const at::Tensor& to, const at::Tensor& exact, const at::Tensor& key,
                  std::uint32_t tensor, std::int64_t first = 0);
  static std::int32_t as_int(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

 private:
  void mix_round(int i);

  at::Tensor hash_, temporary_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/stochastic_rounding.ipp>
#endif
