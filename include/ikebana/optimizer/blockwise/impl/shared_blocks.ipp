#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/blockwise/shared_blocks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void SharedBlocks::add(const CutParameter& one, const BlockRange& blocks) {
  const auto options = one.state(2).options();
  shared_.push_back({&one, blocks, at::empty({2, 2, block_size_}, options)});
}

IKEBANA_INLINE std::vector<at::Tensor> SharedBlocks::exchange_largest() {
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

IKEBANA_INLINE at::Tensor SharedBlocks::scale(std::size_t k, int moment, std::int64_t block) const {
  return shared_[k].parameter->state(2 + static_cast<std::size_t>(moment)).flatten()[block];
}

IKEBANA_INLINE void SharedBlocks::encode_shared(const std::vector<at::Tensor>& largest) {
  for (std::size_t k = 0; k < shared_.size(); ++k)
    for (int edge = 0; edge < 2; ++edge)
      if (shared_[k].blocks.block_at(edge) >= 0) encode(k, edge, common(k, edge, largest));
}

IKEBANA_INLINE at::Tensor SharedBlocks::common(std::size_t k, int edge,
                                               const std::vector<at::Tensor>& largest) const {
  const BlockRange& blocks = shared_[k].blocks;
  const std::int64_t index = blocks.first + blocks.block_at(edge);
  at::Tensor result;
  for (std::int64_t r = 0; r < ranks_.size(); ++r) {
    Slice slice = shared_[k].parameter->slice();
    slice.rows = rows_of_rank(slice.all_rows(), r, ranks_.size());
    const BlockRange other = BlockRange::of(slice, block_size_);
    for (int e = 0; e < 2; ++e) {
      if (other.block_at(e) < 0 || other.first + other.block_at(e) != index) continue;
      const at::Tensor one = largest[static_cast<std::size_t>(r)][static_cast<std::int64_t>(k)][e];
      result = result.defined() ? at::maximum(result, one) : one;
    }
  }
  return result;
}

IKEBANA_INLINE void SharedBlocks::encode(std::size_t k, int edge, const at::Tensor& largest) {
  const BlockRange& blocks = shared_[k].blocks;
  const std::int64_t block = blocks.block_at(edge);
  const auto [begin, n] = blocks.elements_of(block, block_size_);
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

IKEBANA_INLINE void SharedBlocks::encode_on_device(int moment, const at::Tensor& from,
                                                   const at::Tensor& largest,
                                                   const at::Tensor& to) const {
  const at::Tensor inverse = largest.reciprocal().mul_(largest.gt(min_scale)).nan_to_num_(0, 0, 0);
  const auto& bounds = maps_[static_cast<std::size_t>(moment)].bounds;
  at::Tensor codes = at::bucketize(from * inverse, bounds, /*out_int32=*/true, /*right=*/false);
  if (moment == 1) codes = at::maximum(codes, from.sign().to(at::kInt));
  to.copy_(codes);
}

}  // namespace ikebana::detail
