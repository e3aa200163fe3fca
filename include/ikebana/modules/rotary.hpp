#pragma once
// modules::Rotary: rotary position embedding.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include <ikebana/detail/number.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/rotary_scaling.hpp>

namespace ikebana::modules {

/// Rotary position embedding of queries and keys as in Hugging Face's Llama ("rotate half"):
/// features i and i + width / 2 are a pair, rotated at position p by the angle p * base^(-2 i /
/// width). (The paper pairs 2 i with 2 i + 1: the same function up to the order of features.)
/// Angles and products are in FP32 (FP64 for FP64); the result has the input's dtype. Cost: tables
/// of cos and sin, shared by copies, which grow when a new position is used; nothing of the input
/// is kept for backward. Not thread-safe. Has neither parameters nor buffers, so saved states do
/// not contain it. RotaryScaling is for longer texts. Source: Su et al., RoFormer: Enhanced
/// Transformer with Rotary Position Embedding, 2021.
class Rotary {
 public:
  /// `width` is that of one head. Throws Error if it is not even and positive, or `base` is not
  /// positive; BadValue as RotaryScaling::check.
  explicit Rotary(std::int64_t width, double base = 10000, const RotaryScaling& scaling = {})
      : width_(width), base_(base), scaling_(scaling) {
    scaling_.check();
    if (width <= 0 || width % 2 != 0)
      throw Error("rotary: width is " + std::to_string(width) +
                  "; it must be the width of one head, even and positive");
    if (!(base > 0 && std::isfinite(base)))
      throw Error("rotary: base is " + c10::str(base) + "; it must be positive and finite");
  }

  /// x (..., T, width), at the positions offset to offset + T - 1. Throws Error if x does not fit.
  at::Tensor operator()(const at::Tensor& x, std::int64_t offset = 0) const {
    check(x);
    if (offset < 0)
      throw Error("rotary: offset is " + std::to_string(offset) +
                  "; it must be 0 or more, since positions count from 0");
    const auto end = offset + x.size(-2);
    if (!tables_fit(x, end)) make_tables(x, std::max(end, 2 * tables_->length()));
    return rotate(x, tables_->cos.slice(0, offset, end), tables_->sin.slice(0, offset, end));
  }
  /// x (B, H, T, width) at `positions` (B, T), or x (..., T, width) at `positions` (T), which are
  /// integers from 0. Throws Error if they do not fit.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const {
    check(x);
    check_positions(positions, x);
    if (positions.dim() < 1 || positions.dim() > 2 || positions.size(-1) != x.size(-2) ||
        (positions.dim() == 2 && (x.dim() != 4 || positions.size(0) != x.size(0))))
      throw Error("rotary: x " + c10::str(x.sizes()) + " with positions " +
                  c10::str(positions.sizes()) +
                  "; positions must be (T), or (B, T) for x (B, H, T, width)");
    auto angle = angles(positions, x);
    if (positions.dim() == 2) angle = angle.unsqueeze(1);
    return rotate(x, angle.cos(), angle.sin());
  }

 private:
  struct Tables {
    at::Tensor cos, sin;  // (positions, width)
    std::int64_t length() const { return cos.defined() ? cos.size(0) : 0; }
  };

  void check(const at::Tensor& x) const {
    if (!x.defined()) throw Error("rotary: x is an undefined tensor; pass queries or keys");
    if (x.dim() < 2 || x.size(-1) != width_ || !x.is_floating_point())
      throw Error("rotary: x is " + c10::str(x.sizes()) + " of " + c10::toString(x.scalar_type()) +
                  "; it must be (..., T, " + std::to_string(width_) + ") of a floating dtype");
  }
  // The values of a device's tensor are not read: that would wait for it.
  static void check_positions(const at::Tensor& positions, const at::Tensor& x) {
    if (!positions.defined() || !at::isIntegralType(positions.scalar_type(), /*includeBool=*/false))
      throw Error(std::string("rotary: positions are ") +
                  (positions.defined() ? c10::toString(positions.scalar_type()) : "undefined") +
                  "; they must be integers, such as Long: BF16 counts to 256 only");
    if (positions.device() != x.device())
      throw Error("rotary: positions are on " + positions.device().str() + ", x on " +
                  x.device().str() + "; move them there");
    if (detail::readable(positions) && positions.numel() > 0 &&
        positions.min().item().to<std::int64_t>() < 0)
      throw Error("rotary: a position is " +
                  std::to_string(positions.min().item().to<std::int64_t>()) +
                  "; it must be 0 or more, since positions count from 0");
  }
  static at::ScalarType wide_dtype(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

  // (positions...) to (positions..., width): the angles of the pairs, once for each half.
  at::Tensor angles(const at::Tensor& positions, const at::Tensor& x) const {
    const auto options = x.options().dtype(wide_dtype(x)).requires_grad(false);
    const auto exponent = at::arange(0, width_, 2, options) / static_cast<double>(width_);
    const auto frequency = scaling_(at::reciprocal(at::pow(base_, exponent)));
    const auto angle = positions.to(options).unsqueeze(-1) * frequency;
    return at::cat({angle, angle}, -1);
  }
  bool tables_fit(const at::Tensor& x, std::int64_t end) const {
    return tables_->length() >= end && tables_->cos.device() == x.device() &&
           tables_->cos.scalar_type() == wide_dtype(x);
  }
  void make_tables(const at::Tensor& x, std::int64_t length) const {
    const at::NoGradGuard no_grad;
    const auto angle = angles(at::arange(length, x.options().dtype(at::kLong)), x);
    *tables_ = {angle.cos(), angle.sin()};
  }
  at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    // Autocast would give the two halves of one row its dtype in `cat`, or refuse that of x.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto half = width_ / 2;
    const auto rotated_half = at::cat({x.slice(-1, half).neg(), x.slice(-1, 0, half)}, -1);
    return at::add(x * cos, rotated_half * sin).to(x.scalar_type());
  }

  std::int64_t width_;
  double base_;
  RotaryScaling scaling_;
  std::shared_ptr<Tables> tables_ = std::make_shared<Tables>();
};

}  // namespace ikebana::modules
