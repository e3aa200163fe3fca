#pragma once
// AdamW8bit by LibTorch's operators, for devices whose memory the host does not access.
#include <ikebana/optimizer/blockwise.hpp>

namespace ikebana::detail {

/// The two dynamic maps as tensors on a device.
class DeviceMaps {
 public:
  struct Map {
    at::Tensor values, bounds;  ///< DynamicMap::values and the finite DynamicMap::bounds
  };
  void prepare(c10::Device device) {
    if (maps_[0].values.defined() && maps_[0].values.device() == device) return;
    for (bool is_signed : {true, false}) {
      const DynamicMap& map = dynamic_map(is_signed);
      maps_[is_signed ? 0 : 1] = {on_device(map.values(), DynamicMap::size, device),
                                  on_device(map.bounds(), DynamicMap::size - 1, device)};
    }
  }
  template <class Visit>
  void each_number(const Visit& visit) const {
    for (const Map& map : maps_)
      if (map.values.defined()) visit(map.values), visit(map.bounds);
  }
  /// The map of the first moment (0) or the second (1).
  const Map& operator[](std::size_t moment) const { return maps_[moment]; }

 private:
  /// On a CPU the map's own memory, without an operator, since a recorded step may be the first
  /// that needs it.
  static at::Tensor on_device(const std::array<float, DynamicMap::size>& all, std::int64_t n,
                              c10::Device device) {
    if (device.is_cpu()) return at::from_blob(const_cast<float*>(all.data()), {n}, at::kFloat);
    return at::tensor(at::ArrayRef<float>(all.data(), static_cast<std::size_t>(n)))
        .to(device, /*non_blocking=*/true);
  }

  std::array<Map, 2> maps_;
};

/// Updates one parameter with the same rounding as BlockwisePass, in about thirty passes over
/// scratch.
class BlockwiseOperators {
 public:
  /// Of any slice of so many elements.
  static std::int64_t scratch(const at::Tensor& p, const AdamW8bit& v) {
    std::int64_t blocks = BlockRange::of_whole(p.numel(), v.block_size).count + 1;
    return 3 * Scratch::bytes(blocks * v.block_size, at::kFloat) +
           Scratch::bytes(p.numel(), at::kFloat) + Scratch::bytes(p.numel(), at::kInt) +
           Scratch::bytes(blocks, at::kFloat);
  }
  /// `blocks` and `edges` as of BlockwisePass.
  BlockwiseOperators(const ParameterUpdate& update, const AdamW8bit& v, const DeviceMaps& maps,
                     const BlockRange& blocks, at::Tensor edges = {})
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
  /// The elements of a tensor that is padded to whole blocks.
  at::Tensor unpadded(const at::Tensor& t) const { return t.narrow(0, blocks_.shift, n_); }
  at::Tensor by_block(const at::Tensor& padded) const { return padded.view({-1, v_.block_size}); }
  at::Tensor largest(std::size_t i) const { return update_.state(i + 2).view({-1, 1}); }
  bool in_8_bits() const { return update_.state(2).defined(); }

  void decode(std::size_t i) {
    at::Tensor out = unpadded(moments_[i]);
    if (!in_8_bits()) return void(out.copy_(flat(update_.state(i))));
    codes_.copy_(flat(update_.state(i)));
    at::index_select_out(out, maps_[i].values, 0, codes_);
    by_block(moments_[i]).mul_(largest(i));
  }
  void encode(std::size_t i) {
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
  void keep_edges(std::size_t i, const at::Tensor& moment) {
    for (int edge = 0; edges_.defined() && edge < 2; ++edge) {
      if (blocks_.block_at(edge) < 0) continue;
      const auto [begin, n] = blocks_.elements_of(blocks_.block_at(edge), v_.block_size);
      edges_[edge][static_cast<std::int64_t>(i)].narrow(0, 0, n).copy_(moment.narrow(0, begin, n));
    }
  }
  /// Raises the code of what is not zero to at least 1.
  void keep_from_zero(const at::Tensor& moment) {
    at::Tensor min_codes = unpadded(work_), codes = gradient_;
    at::sign_out(min_codes, moment);
    codes.copy_(codes_);
    codes_.copy_(at::maximum_out(codes, codes, min_codes));
  }

  const ParameterUpdate& update_;
  const AdamW8bit& v_;
  const DeviceMaps& maps_;
  BlockRange blocks_;
  at::Tensor edges_;
  std::int64_t n_;
  std::array<at::Tensor, 2> moments_;
  at::Tensor work_, gradient_, codes_, inverse_;
};

}  // namespace ikebana::detail
