#pragma once
// Updates of parameters that hold fewer digits than their update is computed with: one at a time in
// FP32 scratch memory, then written as Precision says.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/bucket.hpp>

namespace ikebana::detail {

inline bool is_rounded(const Masters& masters, const at::Tensor& p) {
  return masters.rounding != nullptr && p.scalar_type() == at::kBFloat16;
}
/// Type and layout of the state of a master.
inline at::Tensor like_state(const Masters& masters, const at::Tensor& p) {
  return is_rounded(masters, p) ? at::empty_like(p.detach(), p.options().dtype(at::kFloat))
                                : p.detach();
}
inline at::Tensor new_state(const Masters& masters, const at::Tensor& p) {
  auto type = is_rounded(masters, p) ? at::kFloat : p.scalar_type();
  return at::zeros_like(p.detach(), p.options().dtype(type).requires_grad(false));
}

/// Scratch memory for the largest rounded parameter and its gradient.
class Rounded {
 public:
  void prepare(const Masters& masters, const std::vector<Bucket>& buckets) {
    rounding_ = masters.rounding;
    if (rounding_ == nullptr) return;
    for (const Bucket& bucket : buckets) {
      if (!is_rounded(masters, bucket.parameters[0])) continue;
      auto options = bucket.parameters[0].options().dtype(at::kFloat).requires_grad(false);
      std::int64_t most = 0;
      for (const auto& p : bucket.parameters) most = std::max(most, p.numel());
      for (at::Tensor* scratch : {&value_, &gradient_})
        if (!scratch->defined() || scratch->numel() < most) *scratch = at::empty({most}, options);
      rounding_->prepare_rounding(options, value_.numel());
    }
  }
  /// `call(bucket)`, or once with each parameter of it in FP32. What a rejected update leaves as it
  /// was is written back to the bit.
  template <class Call>
  void update(Bucket& bucket, Call&& call) noexcept {
    if (rounding_ == nullptr || bucket.parameters[0].scalar_type() != at::kBFloat16)
      return call(bucket);
    for (std::size_t j = 0; j < bucket.which.size(); ++j) {
      at::Tensor p = in_memory_order(bucket.parameters[j]);
      Bucket one = alone(bucket, j, p.numel());
      one.parameters[0].copy_(p);
      one.gradients[0].copy_(in_memory_order(bucket.gradients[j]));
      call(one);
      rounding_->write(p, one.parameters[0], bucket.which[j]);
    }
  }

 private:
  static at::Tensor in_memory_order(const at::Tensor& t) {
    return t.detach().as_strided({t.numel()}, {1});
  }
  Bucket alone(const Bucket& all, std::size_t j, std::int64_t n) const {
    Bucket one{.group = all.group,
               .first_step = all.first_step,
               .weight_decay = all.weight_decay,
               .lr = all.lr,
               .parameters = {value_.narrow(0, 0, n)},
               .gradients = {gradient_.narrow(0, 0, n)},
               .steps = {all.steps[j]},
               .which = {all.which[j]}};
    for (const Tensors& slot : all.state) one.state.push_back({in_memory_order(slot[j])});
    return one;
  }

  Rounding* rounding_ = nullptr;
  at::Tensor value_, gradient_;
};

}  // namespace ikebana::detail
