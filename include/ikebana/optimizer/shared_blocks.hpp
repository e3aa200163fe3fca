#pragma once
// Blocks of AdamW8bit that lie in the slices of several ranks: they have one scale.
#include <ikebana/optimizer/blockwise_operators.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Updates slices, exchanges the largest magnitudes of the blocks that ranks share, and encodes
/// these anew, so that codes and scales are those of whole parameters. One exchange of 16 bytes for
/// each parameter; memory for four blocks of each, in single precision.
class SharedBlocks {
 public:
  SharedBlocks(std::vector<CutParameter>& all, const AdamW8bit& v, const DeviceMaps& maps,
               RankGroup& ranks)
      : all_(all), v_(v), maps_(maps), ranks_(ranks) {}

  /// `update(parameter, blocks, edges...)` updates a slice; in `edges` it leaves the moments of its
  /// first and last block.
  template <class Update>
  void update(const Update& update) {
    for (CutParameter& one : all_) {
      const Slice& slice = one.slice();
      const bool in_8_bits = one.state(2).defined();
      const std::int64_t elements = one.state(0).numel();
      const BlockRange blocks = in_8_bits ? BlockRange::of(slice, v_.block_size)
                                          : BlockRange::of_whole(elements, v_.block_size);
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

  void add(const CutParameter& one, const BlockRange& blocks) {
    const auto options = one.state(2).options();
    shared_.push_back({&one, blocks, at::empty({2, 2, v_.block_size}, options)});
  }
  /// Of all ranks, (parameter, edge, moment).
  std::vector<at::Tensor> exchange_largest() {
    const auto size = static_cast<std::size_t>(ranks_.size());
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    std::vector<at::Tensor> all;
    TensorsOfRanks to(size), from(size);
    for (std::size_t r = 0; r < size; ++r)
      all.push_back(at::zeros({std::ssize(shared_), 2, 2}, shared_[0].edges.options()));
    for (std::size_t k = 0; k < shared_.size(); ++k)
      for (int edge = 0; edge < 2; ++edge)
        if (const std::int64_t block = shared_[k].blocks.block_at(edge); block >= 0)
          for (int moment = 0; moment < 2; ++moment)
            all[rank][static_cast<std::int64_t>(k)][edge][moment].copy_(scale(k, moment, block));
    for (std::size_t r = 0; r < size; ++r)
      if (r != rank) to[r] = {all[rank]}, from[r] = {all[r]};
    ranks_.begin_swap(to, from);
    ranks_.finish_swap();
    return all;
  }
  at::Tensor scale(std::size_t k, int moment, std::int64_t block) const {
    return shared_[k].parameter->state(2 + static_cast<std::size_t>(moment)).flatten()[block];
  }
  void encode_shared(const std::vector<at::Tensor>& largest) {
    for (std::size_t k = 0; k < shared_.size(); ++k)
      for (int edge = 0; edge < 2; ++edge)
        if (shared_[k].blocks.block_at(edge) >= 0) encode(k, edge, common(k, edge, largest));
  }
  /// Of both moments, over all ranks that have elements of the block.
  at::Tensor common(std::size_t k, int edge, const std::vector<at::Tensor>& largest) const {
    const BlockRange& blocks = shared_[k].blocks;
    const std::int64_t index = blocks.first + blocks.block_at(edge);
    at::Tensor result;
    for (std::int64_t r = 0; r < ranks_.size(); ++r) {
      Slice slice = shared_[k].parameter->slice();
      slice.rows = rows_of_rank(slice.all_rows(), r, ranks_.size());
      const BlockRange other = BlockRange::of(slice, v_.block_size);
      for (int e = 0; e < 2; ++e) {
        if (other.block_at(e) < 0 || other.first + other.block_at(e) != index) continue;
        const at::Tensor one =
            largest[static_cast<std::size_t>(r)][static_cast<std::int64_t>(k)][e];
        result = result.defined() ? at::maximum(result, one) : one;
      }
    }
    return result;
  }
  void encode(std::size_t k, int edge, const at::Tensor& largest) {
    const BlockRange& blocks = shared_[k].blocks;
    const std::int64_t block = blocks.block_at(edge);
    const auto [begin, n] = blocks.elements_of(block, v_.block_size);
    for (int moment = 0; moment < 2; ++moment) {
      const at::Tensor from = shared_[k].edges[edge][moment].narrow(0, 0, n);
      const at::Tensor& state = shared_[k].parameter->state(static_cast<std::size_t>(moment));
      const at::Tensor codes = in_memory_order(state).narrow(0, begin, n);
      scale(k, moment, block).copy_(largest[moment]);
      if (shared_[k].parameter->on_device()) encode_on_device(moment, from, largest[moment], codes);
      else
        encode_block(moment == 0, data_of<float>(from), n,
                     static_cast<float>(number(largest[moment])), data_of<std::uint8_t>(codes));
    }
  }
  void encode_on_device(int moment, const at::Tensor& from, const at::Tensor& largest,
                        const at::Tensor& to) const {
    const at::Tensor inverse =
        largest.reciprocal().mul_(largest.gt(min_scale)).nan_to_num_(0, 0, 0);
    const auto& bounds = maps_[static_cast<std::size_t>(moment)].bounds;
    at::Tensor codes = at::bucketize(from * inverse, bounds, /*out_int32=*/true, /*right=*/false);
    if (moment == 1) codes = at::maximum(codes, from.sign().to(at::kInt));
    to.copy_(codes);
  }

  std::vector<CutParameter>& all_;
  const AdamW8bit& v_;
  const DeviceMaps& maps_;
  RankGroup& ranks_;
  std::vector<Shared> shared_;  // those in 8 bits
};

}  // namespace ikebana::detail
