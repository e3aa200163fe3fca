#pragma once
// Updates of BF16 parameters: computed in FP32 scratch memory, one parameter at a time, and then
// rounded as Precision determines.
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>

namespace ikebana::detail {

/// Holds FP32 scratch for the largest rounded parameter and its gradient, which replace both while
/// an update is computed. Allocates nothing if no update is rounded.
class LowPrecisionUpdate {
 public:
  void begin(const Masters& masters);
  /// Returns the tensor that the update of a parameter computes with: the parameter itself, or FP32
  /// scratch of its shape and strides. State is made like it.
  at::Tensor operand(const at::Tensor& p) { return is_rounded(p) ? like(p, value_) : p; }
  /// Returns the same for its gradient. Sparse gradients are not copied to scratch.
  at::Tensor operand(const at::Tensor& gradient, const at::Tensor& p);
  /// Prepares the update of a parameter by its gradient. Returns the gradient to keep until then.
  at::Tensor prepare(at::Tensor gradient, const at::Tensor& p);
  /// Prepares parameter `j` of a bucket, which is rounded, after the bucket's other values are set.
  void prepare_rounded(MasterBucket& bucket, std::size_t j);
  /// Copies parameter `j` of a bucket, which is rounded, and its gradient to scratch. Returns the
  /// bucket of that parameter alone, in FP32, which is then updated.
  const Bucket& to_fp32(const MasterBucket& bucket, std::size_t j);
  /// Rounds the updated parameter `j` from scratch. A value that a rejected update leaves unchanged
  /// is written back with the same bits.
  void write_back(const MasterBucket& bucket, std::size_t j) noexcept;
  bool is_rounded(const at::Tensor& p) const { return detail::is_rounded(rounding_, p); }

 private:
  void make_scratch(const at::Tensor& p);
  at::Tensor like(const at::Tensor& p, at::Tensor& scratch);
  /// Returns a bucket with parameter `j` of a bucket, in FP32.
  Bucket single_bucket(const Bucket& all, std::size_t j);

  UpdateRounding* rounding_ = nullptr;
  std::size_t first_index_ = 0;    // Masters::first
  std::int64_t max_elements_ = 0;  // the number of elements of the largest rounded parameter
  at::Tensor value_, gradient_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/low_precision_update.ipp>
#endif
