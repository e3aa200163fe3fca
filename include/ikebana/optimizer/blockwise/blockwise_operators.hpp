#pragma once
// AdamW8bit by LibTorch's operators, for devices whose memory the host does not access.
#include <ikebana/optimizer/blockwise/blockwise_pass.hpp>

namespace ikebana::detail {

/// Updates one parameter with the same rounding as BlockwisePass, in about thirty passes over
/// scratch.
class BlockwiseOperators {
 public:
  /// Returns the bytes of scratch for any slice with as many elements as `p`.
  static std::int64_t scratch(const at::Tensor& p, std::int64_t block_size);
  /// `blocks` and `edges` are as for BlockwisePass.
  BlockwiseOperators(const ParameterUpdate& update, const BlockValues& v, const DeviceMaps& maps,
                     const BlockRange& blocks, at::Tensor edges = {});
  template <class Number>
  void update(const Number& lr, const Number& step) {
    gradient_.copy_(flat(update_.gradient()));
    if (v_.maximize) gradient_.neg_();
    for (std::size_t i = 0; i < 2; ++i) decode(i);
    at::Tensor first = unpadded(moments_[0]), second = unpadded(moments_[1]),
               work = unpadded(work_);
    first.mul_(update_.betas()[0]).add_(gradient_, 1 - update_.betas()[0]);
    second.mul_(update_.betas()[1]).addcmul_(gradient_, gradient_, 1 - update_.betas()[1]);
    at::sqrt_out(work, second);
    work.mul_(1 / root(bias_correction(update_.betas()[1], step)));
    at::Tensor change = at::div_out(work, first, work.add_(update_.eps()));
    at::Tensor p = flat(update_.parameter());
    if (update_.weight_decay() != 0) p.mul_(1 - lr * update_.weight_decay());
    subtract_scaled(p, change, lr / bias_correction(update_.betas()[0], step));
    for (std::size_t i = 0; i < 2; ++i) encode(i);
  }

 private:
  static at::Tensor flat(const at::Tensor& t) { return t.detach().as_strided({t.numel()}, {1}); }
  /// Returns the elements without the padding to whole blocks.
  at::Tensor unpadded(const at::Tensor& t) const { return t.narrow(0, blocks_.shift, n_); }
  at::Tensor by_block(const at::Tensor& padded) const { return padded.view({-1, v_.block_size}); }
  at::Tensor largest(std::size_t i) const { return update_.state(i + 2).view({-1, 1}); }
  bool in_8_bits() const { return update_.state(2).defined(); }

  void decode(std::size_t i);
  void encode(std::size_t i);
  void keep_edges(std::size_t i, const at::Tensor& moment);
  /// Raises the code of every element that is not zero to at least 1.
  void keep_from_zero(const at::Tensor& moment);

  const ParameterUpdate& update_;
  BlockValues v_;
  const DeviceMaps& maps_;
  BlockRange blocks_;
  at::Tensor edges_;
  std::int64_t n_;
  std::array<at::Tensor, 2> moments_;
  at::Tensor work_, gradient_, codes_, inverse_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/blockwise/impl/blockwise_operators.ipp>
#endif
