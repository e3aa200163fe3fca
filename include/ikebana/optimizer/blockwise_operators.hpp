#pragma once
// AdamW with moments in 8 bits, by LibTorch's operators: for devices whose memory is not the
// host's.
#include <ikebana/optimizer/blockwise.hpp>

namespace ikebana::detail {

/// The two dynamic maps as tensors on a device.
class DeviceMaps {
 public:
  struct Map {
    at::Tensor numbers, bounds;
  };
  void prepare(c10::Device device) {
    if (maps_[0].numbers.defined() && maps_[0].numbers.device() == device) return;
    for (bool is_signed : {true, false}) {
      const DynamicMap& map = dynamic_map(is_signed);
      at::ArrayRef<float> bounds(map.bounds().data(), DynamicMap::size - 1);
      maps_[is_signed ? 0 : 1] = {at::tensor(at::ArrayRef<float>(map.numbers())).to(device),
                                  at::tensor(bounds).to(device)};
    }
  }
  /// Of the first moment, or the second.
  const Map& operator[](std::size_t moment) const { return maps_[moment]; }

 private:
  std::array<Map, 2> maps_;
};

/// One parameter; the same rounding as BlockwisePass, in some thirty passes over scratch.
class BlockwiseOperators {
 public:
  static std::int64_t scratch(const at::Tensor& p, const AdamW8bit& v) {
    std::int64_t whole = v.blocks(p) * v.block_size;
    return 3 * Scratch::bytes(whole, at::kFloat) + Scratch::bytes(p.numel(), at::kFloat) +
           Scratch::bytes(p.numel(), at::kInt) + Scratch::bytes(v.blocks(p), at::kFloat);
  }
  BlockwiseOperators(const ParameterUpdate& one, const AdamW8bit& v, const DeviceMaps& maps)
      : one_(one), v_(v), maps_(maps), n_(one.parameter().numel()) {
    std::int64_t whole = v.blocks(one.parameter()) * v.block_size;
    for (at::Tensor* t : {&moments_[0], &moments_[1], &work_})
      *t = one.scratch.take({whole}, at::kFloat).zero_();
    gradient_ = one.scratch.take({n_}, at::kFloat);
    codes_ = one.scratch.take({n_}, at::kInt);
    inverse_ = one.scratch.take({v.blocks(one.parameter()), 1}, at::kFloat);
  }
  template <class Number>
  void update(const Number& lr, const Number& step) noexcept {
    gradient_.copy_(flat(one_.gradient()));
    if (v_.maximize) gradient_.neg_();
    for (std::size_t i : {0, 1}) read(i);
    at::Tensor first = part(moments_[0]), second = part(moments_[1]), work = part(work_);
    first.mul_(v_.betas[0]).add_(gradient_, 1 - v_.betas[0]);
    second.mul_(v_.betas[1]).addcmul_(gradient_, gradient_, 1 - v_.betas[1]);
    at::sqrt_out(work, second);
    work.mul_(1 / root(1 - power(v_.betas[1], step)));
    at::Tensor change = at::div_out(work, first, work.add_(v_.eps));
    at::Tensor p = flat(one_.parameter());
    if (one_.weight_decay() != 0) p.mul_(1 - lr * one_.weight_decay());
    step_along(p, change, lr / (1 - power(v_.betas[0], step)));
    for (std::size_t i : {0, 1}) write(i);
  }

 private:
  static at::Tensor flat(const at::Tensor& t) { return t.detach().as_strided({t.numel()}, {1}); }
  at::Tensor part(const at::Tensor& whole) const { return whole.narrow(0, 0, n_); }
  at::Tensor by_block(const at::Tensor& whole) const { return whole.view({-1, v_.block_size}); }
  at::Tensor largest(std::size_t i) const { return one_.state(i + 2).view({-1, 1}); }
  bool eight() const { return v_.in_8_bits(one_.parameter()); }

  void read(std::size_t i) {
    at::Tensor out = part(moments_[i]);
    if (!eight()) return void(out.copy_(flat(one_.state(i))));
    codes_.copy_(flat(one_.state(i)));
    at::index_select_out(out, maps_[i].numbers, 0, codes_);
    by_block(moments_[i]).mul_(largest(i));
  }
  void write(std::size_t i) {
    at::Tensor moment = part(moments_[i]);
    if (!eight()) return void(flat(one_.state(i)).copy_(moment));
    at::Tensor most = largest(i);
    at::abs_out(work_, moments_[i]);
    at::amax_out(most, by_block(work_), 1, /*keepdim=*/true);
    at::reciprocal_out(inverse_, most);
    inverse_.mul_(most.gt(BlockwisePass<float>::min)).nan_to_num_(0, 0, 0);
    by_block(moments_[i]).mul_(inverse_);
    at::bucketize_out(codes_, moment, maps_[i].bounds, /*out_int32=*/true, /*right=*/false);
    if (i == 1) keep_from_zero(moment);
    flat(one_.state(i)).copy_(codes_);
  }
  /// Code 1 at the least for what is not zero.
  void keep_from_zero(const at::Tensor& moment) {
    at::Tensor at_least = part(work_), codes = gradient_;
    at::sign_out(at_least, moment);
    codes.copy_(codes_);
    codes_.copy_(at::maximum_out(codes, codes, at_least));
  }

  const ParameterUpdate& one_;
  const AdamW8bit& v_;
  const DeviceMaps& maps_;
  std::int64_t n_;
  std::array<at::Tensor, 2> moments_;
  at::Tensor work_, gradient_, codes_, inverse_;
};

}  // namespace ikebana::detail
