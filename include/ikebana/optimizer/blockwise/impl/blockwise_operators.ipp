#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/blockwise/blockwise_operators.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t BlockwiseOperators::scratch(const at::Tensor& p,
                                                        std::int64_t block_size) {
  std::int64_t blocks = BlockRange::of_whole(p.numel(), block_size).count + 1;
  return 3 * Scratch::bytes(blocks * block_size, at::kFloat) +
         Scratch::bytes(p.numel(), at::kFloat) + Scratch::bytes(p.numel(), at::kInt) +
         Scratch::bytes(blocks, at::kFloat);
}

IKEBANA_INLINE BlockwiseOperators::BlockwiseOperators(const ParameterUpdate& update,
                                                      const BlockValues& v, const DeviceMaps& maps,
                                                      const BlockRange& blocks, at::Tensor edges)
    : update_(update),
      v_(v),
      maps_(maps),
      blocks_(blocks),
      edges_(std::move(edges)),
      n_(blocks.elements) {
  std::int64_t padded = blocks.count * v.block_size;
  for (at::Tensor* t : {&moments_[0], &moments_[1], &work_})
    *t = update.scratch.allocate({padded}, at::kFloat).zero_();
  gradient_ = update.scratch.allocate({n_}, at::kFloat);
  codes_ = update.scratch.allocate({n_}, at::kInt);
  inverse_ = update.scratch.allocate({blocks.count, 1}, at::kFloat);
}

IKEBANA_INLINE void BlockwiseOperators::decode(std::size_t i) {
  at::Tensor out = unpadded(moments_[i]);
  if (!in_8_bits()) return void(out.copy_(flat(update_.state(i))));
  codes_.copy_(flat(update_.state(i)));
  at::index_select_out(out, maps_[i].values, 0, codes_);
  by_block(moments_[i]).mul_(largest(i));
}

IKEBANA_INLINE void BlockwiseOperators::encode(std::size_t i) {
  at::Tensor moment = unpadded(moments_[i]);
  if (!in_8_bits()) return void(flat(update_.state(i)).copy_(moment));
  at::Tensor scale = largest(i);
  at::abs_out(work_, moments_[i]);
  at::amax_out(scale, by_block(work_), 1, /*keepdim=*/true);
  keep_edges(i, moment);
  at::reciprocal_out(inverse_, scale);
  inverse_.mul_(scale.gt(min_scale)).nan_to_num_(0, 0, 0);
  by_block(moments_[i]).mul_(inverse_);
  at::bucketize_out(codes_, moment, maps_[i].bounds, /*out_int32=*/true, /*right=*/false);
  if (i == 1) keep_from_zero(moment);
  flat(update_.state(i)).copy_(codes_);
}

IKEBANA_INLINE void BlockwiseOperators::keep_edges(std::size_t i, const at::Tensor& moment) {
  for (int edge = 0; edges_.defined() && edge < 2; ++edge) {
    if (blocks_.block_at(edge) < 0) continue;
    const auto [begin, n] = blocks_.elements_of(blocks_.block_at(edge), v_.block_size);
    edges_[edge][static_cast<std::int64_t>(i)].narrow(0, 0, n).copy_(moment.narrow(0, begin, n));
  }
}

IKEBANA_INLINE void BlockwiseOperators::keep_from_zero(const at::Tensor& moment) {
  at::Tensor min_codes = unpadded(work_), codes = gradient_;
  at::sign_out(min_codes, moment);
  codes.copy_(codes_);
  codes_.copy_(at::maximum_out(codes, codes, min_codes));
}

}  // namespace ikebana::detail
