#pragma once
// The update of AdamW8bit for parameters that are cut among ranks: a block in the slices of several
// ranks has one scale.
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/blockwise/blockwise_operators.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Updates slices, exchanges the largest magnitudes of the blocks that ranks share, and encodes
/// these blocks again, so that codes and scales are as for whole parameters. Makes one exchange, of
/// 16 bytes for each parameter; needs memory for four blocks of each, in single precision.
class SharedBlocks {
 public:
  SharedBlocks(std::vector<CutParameter>& all, std::int64_t block_size, const DeviceMaps& maps,
               RankGroup& ranks)
      : all_(all), block_size_(block_size), maps_(maps), ranks_(ranks) {}

  /// `update(parameter, blocks, edges...)` updates a slice, and writes the moments of its first and
  /// last block to `edges`.
  template <class Update>
  void update(const Update& update) {
    for (CutParameter& one : all_) {
      const Slice& slice = one.slice();
      const bool in_8_bits = one.state(2).defined();
      const std::int64_t elements = one.state(0).numel();
      const BlockRange blocks = in_8_bits ? BlockRange::of(slice, block_size_)
                                          : BlockRange::of_whole(elements, block_size_);
      if (in_8_bits) add(one, blocks);
      one.write([&](const ParameterUpdate& of_one) {
        if (in_8_bits) update(of_one, blocks, shared_.back().edges);
        else update(of_one, blocks);
      });
    }
    if (!shared_.empty()) encode_shared(exchange_largest());
  }

 private:
  struct Shared {
    const CutParameter* parameter;
    BlockRange blocks;
    at::Tensor edges;  // (edge, moment, element)
  };

  void add(const CutParameter& one, const BlockRange& blocks);
  /// Returns the largest magnitudes of all ranks, as (parameter, edge, moment).
  std::vector<at::Tensor> exchange_largest();
  at::Tensor scale(std::size_t k, int moment, std::int64_t block) const;
  void encode_shared(const std::vector<at::Tensor>& largest);
  /// Returns the largest magnitude of each moment over all ranks that have elements of the block.
  at::Tensor common(std::size_t k, int edge, const std::vector<at::Tensor>& largest) const;
  void encode(std::size_t k, int edge, const at::Tensor& largest);
  void encode_on_device(int moment, const at::Tensor& from, const at::Tensor& largest,
                        const at::Tensor& to) const;

  std::vector<CutParameter>& all_;
  std::int64_t block_size_;
  const DeviceMaps& maps_;
  RankGroup& ranks_;
  std::vector<Shared> shared_;  // parameters in 8 bits
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/blockwise/impl/shared_blocks.ipp>
#endif
