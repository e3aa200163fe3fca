#pragma once
// AdamW with moments in 8 bits, in one pass over the memory of a parameter on a CPU.
#include <ikebana/optimizer/dynamic_map.hpp>
#include <ikebana/optimizer/per_parameter.hpp>
#include <ikebana/detail/parallel.hpp>

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
  BlockwisePass(const ParameterUpdate& one, const AdamW8bit& v) noexcept
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
    const float largest = largest_of(from, n);
    memory<float>(one_.state(slot + 2))[i] = largest;
    const float inverse = largest > min ? 1 / largest : 0;
    if (slot == 0)
      for (std::int64_t k = 0; k < n; ++k) codes[k] = map.code(from[k] * inverse);
    else
      for (std::int64_t k = 0; k < n; ++k)
        codes[k] = std::max<std::uint8_t>(map.code(from[k] * inverse), from[k] > 0);
  }
  /// Eight at a time, since each maximum would wait for the one before it.
  static float largest_of(const float* from, std::int64_t n) noexcept {
    std::array<float, 8> lanes{};
    std::int64_t k = 0;
    for (; k + 8 <= n; k += 8)
      for (std::size_t lane = 0; lane < 8; ++lane) {
        const float x = std::abs(from[k + static_cast<std::int64_t>(lane)]);
        lanes[lane] = lanes[lane] < x ? x : lanes[lane];
      }
    for (; k < n; ++k) lanes[0] = std::max(lanes[0], std::abs(from[k]));
    return *std::max_element(lanes.begin(), lanes.end());
  }
  void step(std::int64_t begin, std::int64_t n, float* first, float* second) const noexcept {
    T* p = memory<T>(one_.parameter()) + begin;
    const T* g = memory<T>(one_.undivided()) + begin;
    in_tiles(0, n, [&](std::int64_t i, auto count) {
      alignas(64) float roots[64];
      moments(g + i, first + i, second + i, count);
      for (std::int64_t k = 0; k < count; ++k) roots[k] = std::sqrt(second[i + k]);
      move(p + i, first + i, roots, count);
    });
  }
  void moments(const T* __restrict g, float* __restrict first, float* __restrict second,
               auto n) const noexcept {
    const float b0 = betas_[0], r0 = rest_[0], b1 = betas_[1], r1 = rest_[1], divisor = divisor_;
    for (std::int64_t k = 0; k < n; ++k) {
      const float gradient = static_cast<float>(g[k]) / divisor;
      first[k] = b0 * first[k] + r0 * gradient;
      second[k] = b1 * second[k] + r1 * gradient * gradient;
    }
  }
  void move(T* __restrict p, const float* __restrict first, const float* __restrict roots,
            auto n) const noexcept {
    const Real keep = keep_;
    const float size = size_, root = root_, eps = eps_;
    for (std::int64_t k = 0; k < n; ++k)
      p[k] = static_cast<T>(keep * static_cast<Real>(p[k]) -
                            size * first[k] / (roots[k] * root + eps));
  }

 public:
  /// A block whose largest number has no reciprocal counts as zero.
  static constexpr float min = std::numeric_limits<float>::min();

 private:
  const ParameterUpdate& one_;
  std::int64_t n_, block_;
  bool eight_;
  float divisor_, betas_[2], rest_[2];
  Real keep_;
  float size_, root_, eps_;
};

}  // namespace detail

}  // namespace ikebana
