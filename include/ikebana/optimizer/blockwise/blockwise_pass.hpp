#pragma once
// Updates parameters of AdamW8bit on a CPU, in one pass over the memory of a parameter.
#include <array>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/detail/slice.hpp>
#include <ikebana/optimizer/blockwise/dynamic_map.hpp>
#include <ikebana/optimizer/engine/parameter_update.hpp>

namespace ikebana::detail {

/// The blocks of a slice. They are counted from the first element of the whole parameter, so the
/// first and the last one may have elements in the slices of other ranks.
struct BlockRange {
  std::int64_t first = 0, count = 0;  ///< among the blocks of the whole parameter
  std::int64_t shift = 0;             ///< elements of the first block before the slice
  std::int64_t elements = 0;          ///< elements of the slice
  bool shares_first = false, shares_last = false;

  static BlockRange of(const Slice& slice, std::int64_t block_size);
  /// Returns the index of the block's first element within the slice, and its number of elements
  /// there.
  std::pair<std::int64_t, std::int64_t> elements_of(std::int64_t block,
                                                    std::int64_t block_size) const;
  /// Returns the blocks of a parameter that is whole.
  static BlockRange of_whole(std::int64_t elements, std::int64_t block_size);
  /// Returns 0 for a first block that is shared, 1 for a last block that is shared, -1 for others.
  int edge(std::int64_t block) const;
  /// Returns the block that is edge `e`, or -1 if no block is.
  std::int64_t block_at(int e) const;
};

/// The values of AdamW8bit that no group changes.
struct BlockValues {
  std::int64_t block_size;  ///< at most `max_block_size`
  bool maximize;
};
/// The most elements of a block: its two moments are on the stack while it is updated.
inline constexpr std::int64_t max_block_size = 4096;

/// A block whose largest magnitude is not above this has no finite reciprocal and becomes zero.
inline constexpr float min_scale = std::numeric_limits<float>::min();

/// Computes the codes of a block's moment, whose scale is `largest`.
void encode_block(bool is_first_moment, const float* from, std::int64_t n, float largest,
                  std::uint8_t* codes) noexcept;

/// Updates one parameter block by block: moments are decoded, updated, used and encoded while a
/// block is in the cache.
template <class T>
class BlockwisePass {
 public:
  /// `edges` (2, 2, block_size): receives, for the first and the last block if they are shared, the
  /// moments before they are encoded; undefined if no block is shared.
  BlockwisePass(const ParameterUpdate& update, const BlockValues& v, const BlockRange& blocks,
                const at::Tensor& edges = {}) noexcept
      : update_(update),
        blocks_(blocks),
        edges_(edges.defined() ? data_of<float>(edges) : nullptr),
        block_size_(v.block_size),
        in_8_bits_(update.state(2).defined()),
        divisor_(static_cast<float>(v.maximize ? -update.divisor() : update.divisor())),
        beta_{static_cast<float>(update.betas()[0]), static_cast<float>(update.betas()[1])},
        one_minus_beta_{static_cast<float>(1 - update.betas()[0]),
                        static_cast<float>(1 - update.betas()[1])},
        weight_factor_(static_cast<Real>(1 - update.lr() * update.weight_decay())),
        step_size_(
            static_cast<float>(update.lr() / (1 - std::pow(update.betas()[0], update.step())))),
        root_correction_(
            static_cast<float>(1 / std::sqrt(1 - std::pow(update.betas()[1], update.step())))),
        eps_(static_cast<float>(update.eps())) {}

  void update() const noexcept {
    const std::int64_t blocks = std::max<std::int64_t>(1, (1 << 14) / block_size_);
    in_parallel(data_of<T>(update_.parameter()), blocks_.count, blocks,
                [this](std::int64_t i, std::int64_t end) noexcept {
                  alignas(64) float first[max_block_size];
                  alignas(64) float second[max_block_size];
                  for (; i < end; ++i) update_block(i, first, second);
                });
  }

 private:
  using Real = opmath_t<T>;

  void update_block(std::int64_t i, float* first, float* second) const noexcept {
    const auto [begin, n] = blocks_.elements_of(i, block_size_);
    if (!in_8_bits_) {
      step(begin, n, data_of<float>(update_.state(0)) + begin,
           data_of<float>(update_.state(1)) + begin);
      return;
    }
    decode(dynamic_map(true), 0, i, begin, n, first);
    decode(dynamic_map(false), 1, i, begin, n, second);
    step(begin, n, first, second);
    encode(0, i, begin, n, first);
    encode(1, i, begin, n, second);
  }
  void decode(const DynamicMap& map, std::size_t slot, std::int64_t i, std::int64_t begin,
              std::int64_t n, float* out) const noexcept {
    const auto* codes = data_of<std::uint8_t>(update_.state(slot)) + begin;
    const float largest = data_of<float>(update_.state(slot + 2))[i];
    for (std::int64_t k = 0; k < n; ++k) out[k] = map[codes[k]] * largest;
  }
  void encode(std::size_t slot, std::int64_t i, std::int64_t begin, std::int64_t n,
              const float* from) const noexcept {
    const float largest = largest_of(from, n);
    data_of<float>(update_.state(slot + 2))[i] = largest;
    encode_block(slot == 0, from, n, largest, data_of<std::uint8_t>(update_.state(slot)) + begin);
    if (edges_ == nullptr || blocks_.edge(i) < 0) return;
    const auto place = 2 * blocks_.edge(i) + static_cast<std::int64_t>(slot);
    std::copy_n(from, n, edges_ + place * block_size_);
  }
  /// Uses eight independent lanes, since a single running maximum would be a chain of dependencies.
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
    T* p = data_of<T>(update_.parameter()) + begin;
    const T* g = data_of<T>(update_.undivided()) + begin;
    in_tiles(0, n, [&](std::int64_t i, auto count) {
      alignas(64) float roots[64];
      moments(g + i, first + i, second + i, count);
      for (std::int64_t k = 0; k < count; ++k) roots[k] = std::sqrt(second[i + k]);
      apply(p + i, first + i, roots, count);
    });
  }
  void moments(const T* __restrict g, float* __restrict first, float* __restrict second,
               auto n) const noexcept {
    const float b0 = beta_[0], r0 = one_minus_beta_[0], b1 = beta_[1], r1 = one_minus_beta_[1],
                divisor = divisor_;
    for (std::int64_t k = 0; k < n; ++k) {
      const float gradient = static_cast<float>(g[k]) / divisor;
      first[k] = b0 * first[k] + r0 * gradient;
      second[k] = b1 * second[k] + r1 * gradient * gradient;
    }
  }
  void apply(T* __restrict p, const float* __restrict first, const float* __restrict roots,
             auto n) const noexcept {
    const Real factor = weight_factor_;
    const float size = step_size_, correction = root_correction_, eps = eps_;
    for (std::int64_t k = 0; k < n; ++k)
      p[k] = static_cast<T>(factor * static_cast<Real>(p[k]) -
                            size * first[k] / (roots[k] * correction + eps));
  }

  const ParameterUpdate& update_;
  BlockRange blocks_;
  float* edges_;
  std::int64_t block_size_;
  bool in_8_bits_;
  float divisor_, beta_[2], one_minus_beta_[2];
  Real weight_factor_;
  float step_size_, root_correction_, eps_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/blockwise/impl/blockwise_pass.ipp>
#endif
