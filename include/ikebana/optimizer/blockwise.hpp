#pragma once
// AdamW with moments in 8 bits, in one pass over the memory of a parameter on a CPU.
#include <ikebana/optimizer/dynamic_map.hpp>
#include <ikebana/optimizer/each.hpp>
#include <ikebana/optimizer/parallel.hpp>

namespace ikebana {

/// AdamW whose two moments take 8 bits a number, in blocks that share a scale: 2 + 8 / block_size
/// bytes a parameter instead of 8. Each block is divided by its largest number and rounded to the
/// dynamic map of 256 numbers, close together near zero. The update itself is computed in single
/// precision, from moments that are rounded only afterwards. A second moment that is not 0 is never
/// rounded to 0, since Adam divides by its root. Parameters of fewer than `min_8bit_size` numbers
/// keep moments of 32 bits. PyTorch has no such optimizer. Fields and defaults as AdamW's, sizes as
/// in torchao and bitsandbytes. Source: Dettmers et al., arXiv:2110.02861.
struct AdamW8bit {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool maximize = false;
  std::int64_t block_size = 256;
  std::int64_t min_8bit_size = 4096;
  std::vector<Group> groups = {};

  static constexpr std::int64_t largest_block = 4096;
  bool in_8_bits(const at::Tensor& p) const { return p.numel() >= min_8bit_size; }
  std::int64_t blocks(const at::Tensor& p) const {
    return (p.numel() + block_size - 1) / block_size;
  }
};

namespace detail {

/// One parameter, block by block: moments are read, updated, used and rounded while a block is in
/// the cache.
template <class T>
class BlockwisePass {
 public:
  BlockwisePass(const One& one, const AdamW8bit& v) noexcept
      : one_(one),
        n_(one.parameter().numel()),
        block_(v.block_size),
        eight_(v.in_8_bits(one.parameter())),
        divisor_(static_cast<float>(v.maximize ? -one.divisor() : one.divisor())),
        betas_{static_cast<float>(v.betas[0]), static_cast<float>(v.betas[1])},
        rest_{static_cast<float>(1 - v.betas[0]), static_cast<float>(1 - v.betas[1])},
        keep_(static_cast<Real>(1 - one.lr() * one.weight_decay())),
        size_(static_cast<float>(one.lr() / (1 - std::pow(v.betas[0], one.step())))),
        root_(static_cast<float>(1 / std::sqrt(1 - std::pow(v.betas[1], one.step())))),
        eps_(static_cast<float>(v.eps)) {}

  void update() const noexcept {
    std::int64_t blocks = (n_ + block_ - 1) / block_;
    in_parallel(blocks, std::max<std::int64_t>(1, (1 << 14) / block_),
                [this](std::int64_t i, std::int64_t end) {
                  alignas(64) float first[AdamW8bit::largest_block];
                  alignas(64) float second[AdamW8bit::largest_block];
                  for (; i < end; ++i) block(i, first, second);
                });
  }

 private:
  using Real = wide_t<T>;

  void block(std::int64_t i, float* first, float* second) const noexcept {
    const std::int64_t begin = i * block_, n = std::min(block_, n_ - begin);
    if (!eight_) {
      step(begin, n, memory<float>(one_.state(0)) + begin, memory<float>(one_.state(1)) + begin);
      return;
    }
    read(dynamic_map(true), 0, i, n, first);
    read(dynamic_map(false), 1, i, n, second);
    step(begin, n, first, second);
    write(dynamic_map(true), 0, i, n, first);
    write(dynamic_map(false), 1, i, n, second);
  }
  void read(const DynamicMap& map, std::size_t slot, std::int64_t i, std::int64_t n,
            float* out) const noexcept {
    const auto* codes = memory<std::uint8_t>(one_.state(slot)) + i * block_;
    const float largest = memory<float>(one_.state(slot + 2))[i];
    for (std::int64_t k = 0; k < n; ++k) out[k] = map[codes[k]] * largest;
  }
  void write(const DynamicMap& map, std::size_t slot, std::int64_t i, std::int64_t n,
             const float* from) const noexcept {
    auto* codes = memory<std::uint8_t>(one_.state(slot)) + i * block_;
    float largest = 0;
    for (std::int64_t k = 0; k < n; ++k) largest = std::max(largest, std::abs(from[k]));
    memory<float>(one_.state(slot + 2))[i] = largest;
    const float inverse = largest > least ? 1 / largest : 0;
    if (slot == 0)
      for (std::int64_t k = 0; k < n; ++k) codes[k] = map.code(from[k] * inverse);
    else
      for (std::int64_t k = 0; k < n; ++k)
        codes[k] = std::max<std::uint8_t>(map.code(from[k] * inverse), from[k] > 0);
  }
  void step(std::int64_t begin, std::int64_t n, float* first, float* second) const noexcept {
    T* p = memory<T>(one_.parameter()) + begin;
    const T* g = memory<T>(one_.undivided()) + begin;
    for (std::int64_t k = 0; k < n; ++k) {
      const float gradient = static_cast<float>(g[k]) / divisor_;
      first[k] = betas_[0] * first[k] + rest_[0] * gradient;
      second[k] = betas_[1] * second[k] + rest_[1] * gradient * gradient;
      p[k] = static_cast<T>(keep_ * static_cast<Real>(p[k]) -
                            size_ * first[k] / (std::sqrt(second[k]) * root_ + eps_));
    }
  }

 public:
  /// A block whose largest number has no reciprocal counts as zero.
  static constexpr float least = std::numeric_limits<float>::min();

 private:
  const One& one_;
  std::int64_t n_, block_;
  bool eight_;
  float divisor_, betas_[2], rest_[2];
  Real keep_;
  float size_, root_, eps_;
};

}  // namespace detail

}  // namespace ikebana
