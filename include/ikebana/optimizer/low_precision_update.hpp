#pragma once
// Updates of BF16 parameters: computed in FP32 scratch memory, one parameter at a time, and then
// rounded as Precision determines.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/bucket.hpp>

namespace ikebana::detail {

/// Holds FP32 scratch for the largest rounded parameter and its gradient, which replace both while
/// an update is computed. Allocates nothing if no update is rounded.
class LowPrecisionUpdate {
 public:
  void begin(const Masters& masters) {
    rounding_ = masters.rounding, first_index_ = masters.first;
    for (const auto& p : masters.values)
      if (is_rounded(p)) max_elements_ = std::max(max_elements_, p.numel());
  }
  /// The tensor that the update of a parameter computes with: the parameter itself, or FP32 scratch
  /// of its shape and strides. State is made like it.
  at::Tensor operand(const at::Tensor& p) { return is_rounded(p) ? like(p, value_) : p; }
  /// The same for its gradient; sparse gradients are not copied to scratch.
  at::Tensor operand(const at::Tensor& gradient, const at::Tensor& p) {
    return is_rounded(p) && !gradient.is_sparse() ? like(p, gradient_) : gradient;
  }
  /// Prepares the update of a parameter by its gradient. Returns the gradient to keep until then.
  at::Tensor prepare(at::Tensor gradient, const at::Tensor& p) {
    if (!is_rounded(p)) return gradient;
    make_scratch(p);
    rounding_->prepare_rounding(value_.options(), max_elements_);
    return gradient.is_sparse() ? gradient.to(at::kFloat) : gradient;
  }
  /// Prepares parameter `j` of a bucket whose other values are set.
  void prepare_rounded(Bucket& bucket, std::size_t j) {
    const at::Tensor& p = bucket.parameters[j];
    if (!is_rounded(p)) return;
    bucket.in_fp32.push_back(single_bucket(bucket, j));
    bucket.flat.push_back(in_memory_order(p));
    bucket.flat_in_fp32.push_back(value_.narrow(0, 0, p.numel()));
  }
  /// Calls `call(bucket)`; for rounded parameters once with each of them in FP32. A value that a
  /// rejected update leaves unchanged is written back with the same bits.
  template <class Call>
  void update(Bucket& bucket, Call&& call) {
    if (!is_rounded(bucket.parameters[0])) return call(bucket);
    for (std::size_t j = 0; j < bucket.indices.size(); ++j)
      update_one(bucket, j, /*writes=*/true, [&](Bucket& single, std::size_t) { call(single); });
  }
  /// Calls `call(bucket, j)` for one parameter of a bucket: for a rounded one with its bucket in
  /// FP32, in which its gradient is the one that was prepared. `writes`: the parameter changes.
  template <class Call>
  void update_one(Bucket& bucket, std::size_t j, bool writes, Call&& call) {
    if (!is_rounded(bucket.parameters[j])) return call(bucket, j);
    Bucket& single = bucket.in_fp32[j];
    const at::Tensor& gradient = bucket.gradients[j];
    single.parameters[0].copy_(bucket.parameters[j]);
    if (!gradient.is_sparse()) single.gradients[0].copy_(gradient);
    call(single, std::size_t{0});
    if (writes)
      rounding_->write(bucket.flat[j], bucket.flat_in_fp32[j], first_index_ + bucket.indices[j]);
  }
  bool is_rounded(const at::Tensor& p) const { return detail::is_rounded(rounding_, p); }

 private:
  void make_scratch(const at::Tensor& p) {
    auto options = p.options().dtype(at::kFloat).requires_grad(false);
    for (at::Tensor* scratch : {&value_, &gradient_})
      if (!scratch->defined()) *scratch = at::empty({max_elements_}, options);
  }
  at::Tensor like(const at::Tensor& p, at::Tensor& scratch) {
    make_scratch(p);
    return scratch.as_strided(p.sizes(), p.strides());
  }
  /// Parameter `j` of a bucket, in FP32.
  Bucket single_bucket(const Bucket& all, std::size_t j) {
    const at::Tensor& p = all.parameters[j];
    Bucket single{.group = all.group,
                  .first_step = all.first_step,
                  .numbers = all.numbers,
                  .rate = all.rate,
                  .lr = all.lr,
                  .parameters = {operand(p)},
                  .gradients = {operand(all.gradients[j], p)},
                  .steps = {all.steps[j]},
                  .indices = {all.indices[j]}};
    for (const Tensors& slot : all.state) single.state.push_back({slot[j]});
    return single;
  }

  UpdateRounding* rounding_ = nullptr;
  std::size_t first_index_ = 0;    // Masters::first
  std::int64_t max_elements_ = 0;  // of a rounded parameter
  at::Tensor value_, gradient_;
};

}  // namespace ikebana::detail
