#pragma once
// Updates of parameters that hold fewer digits than their update is computed with: one at a time in
// FP32 scratch memory, then written as Precision says.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/bucket.hpp>

namespace ikebana::detail {

/// Scratch memory for the largest rounded parameter and its gradient, with which they change places
/// while an update is computed. Nothing at all where no update is rounded.
class LowPrecisionUpdate {
 public:
  void begin(const Masters& masters) {
    rounding_ = masters.rounding, first_ = masters.first;
    for (const auto& p : masters.values)
      if (applies(p)) largest_ = std::max(largest_, p.numel());
  }
  /// What the update of a parameter computes with: itself, or scratch of its shape and layout.
  /// State is made like this.
  at::Tensor exact(const at::Tensor& p) { return applies(p) ? like(p, value_) : p; }
  /// The same of its gradient; sparse ones are not in scratch.
  at::Tensor exact(const at::Tensor& gradient, const at::Tensor& p) {
    return applies(p) && !gradient.is_sparse() ? like(p, gradient_) : gradient;
  }
  /// A gradient as the update is to find it.
  at::Tensor taken(at::Tensor gradient, const at::Tensor& p) {
    if (!applies(p)) return gradient;
    make_scratch(p);
    rounding_->prepare_rounding(value_.options(), largest_);
    return gradient.is_sparse() ? gradient.to(at::kFloat) : gradient;
  }
  /// `call(bucket)`, or once with each parameter of it in FP32. What a rejected update leaves as it
  /// was is written back to the bit.
  template <class Call>
  void update(Bucket& bucket, Call&& call) noexcept {
    if (!applies(bucket.parameters[0])) return call(bucket);
    for (std::size_t j = 0; j < bucket.indices.size(); ++j) {
      const at::Tensor &p = bucket.parameters[j], &gradient = bucket.gradients[j];
      Bucket one = alone(bucket, j);
      one.parameters[0].copy_(p);
      if (!gradient.is_sparse()) one.gradients[0].copy_(gradient);
      call(one);
      rounding_->write(in_memory_order(p), value_.narrow(0, 0, p.numel()),
                       first_ + bucket.indices[j]);
    }
  }

 private:
  bool applies(const at::Tensor& p) const {
    return rounding_ != nullptr && p.scalar_type() == at::kBFloat16;
  }
  static at::Tensor in_memory_order(const at::Tensor& t) {
    return t.detach().as_strided({t.numel()}, {1});
  }
  void make_scratch(const at::Tensor& p) {
    auto options = p.options().dtype(at::kFloat).requires_grad(false);
    for (at::Tensor* scratch : {&value_, &gradient_})
      if (!scratch->defined()) *scratch = at::empty({largest_}, options);
  }
  at::Tensor like(const at::Tensor& p, at::Tensor& scratch) {
    make_scratch(p);
    return scratch.as_strided(p.sizes(), p.strides());
  }
  Bucket alone(const Bucket& all, std::size_t j) {
    const at::Tensor& p = all.parameters[j];
    Bucket one{.group = all.group,
               .first_step = all.first_step,
               .weight_decay = all.weight_decay,
               .lr = all.lr,
               .parameters = {exact(p)},
               .gradients = {exact(all.gradients[j], p)},
               .steps = {all.steps[j]},
               .indices = {all.indices[j]}};
    for (const Tensors& slot : all.state) one.state.push_back({slot[j]});
    return one;
  }

  UpdateRounding* rounding_ = nullptr;
  std::size_t first_ = 0;     // Masters::first
  std::int64_t largest_ = 0;  // elements of a rounded parameter
  at::Tensor value_, gradient_;
};

}  // namespace ikebana::detail
