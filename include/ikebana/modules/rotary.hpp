#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::modules {

/// Rotary position embedding of queries and keys in the convention of Llama in Hugging Face's
/// transformers ("rotate half"): features i and i + width / 2 are a pair, turned at position p by
/// the angle p * base^(-2 i / width). (The paper pairs 2 i with 2 i + 1: the same up to an order of
/// features.) Angles and products are in single precision, in double for double inputs; the result
/// has the input's type. Costs: tables of cos and sin, made once and grown when a position is
/// new, which
/// copies share; nothing of the input is kept for backward. One thread at a time. No parameters and
/// no buffers: what is saved does not hold it. Source: Su et al., RoFormer: Enhanced Transformer
/// with Rotary Position Embedding, 2021.
class Rotary {
 public:
  /// `width` of one head, which must be even.
  explicit Rotary(std::int64_t width, double base = 10000) : width_(width), base_(base) {
    if (width <= 0 || width % 2 != 0)
      throw Error("rotary: width " + std::to_string(width) +
                  " has no pairs; give the even width of one head");
    if (!(base > 0)) throw Error("rotary: base is " + c10::str(base) + "; it must be positive");
  }

  /// x (..., T, width), whose rows are at the positions offset to offset + T - 1.
  at::Tensor operator()(const at::Tensor& x, std::int64_t offset = 0) const {
    check(x);
    if (offset < 0)
      throw Error("rotary: offset is " + std::to_string(offset) + "; positions count from 0");
    const auto end = offset + x.size(-2);
    if (!fits(x, end)) make(x, std::max(end, 2 * tables_->length()));
    return turn(x, tables_->cos.slice(0, offset, end), tables_->sin.slice(0, offset, end));
  }
  /// x (B, H, T, width) or (..., T, width), whose rows are at `positions`: (B, T) or (T) integers.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const {
    check(x);
    if (positions.dim() < 1 || positions.dim() > 2 || positions.size(-1) != x.size(-2) ||
        (positions.dim() == 2 && (x.dim() != 4 || positions.size(0) != x.size(0))))
      throw Error("rotary: x " + c10::str(x.sizes()) + " with positions " +
                  c10::str(positions.sizes()) + "; give (T), or (B, T) for (B, H, T, width)");
    auto angle = angles(positions, x);
    if (positions.dim() == 2) angle = angle.unsqueeze(1);
    return turn(x, angle.cos(), angle.sin());
  }

 private:
  struct Tables {
    at::Tensor cos, sin;  // (positions, width)
    std::int64_t length() const { return cos.defined() ? cos.size(0) : 0; }
  };

  void check(const at::Tensor& x) const {
    if (x.dim() < 2 || x.size(-1) != width_ || !x.is_floating_point())
      throw Error("rotary: x is " + c10::str(x.sizes()) + " of " + c10::toString(x.scalar_type()) +
                  "; it must be (..., T, " + std::to_string(width_) + ") of a floating type");
  }
  static at::ScalarType wide(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

  // (positions...) to (positions..., width): each angle twice, once a half.
  at::Tensor angles(const at::Tensor& positions, const at::Tensor& x) const {
    const auto options = x.options().dtype(wide(x)).requires_grad(false);
    const auto power = at::arange(0, width_, 2, options) / static_cast<double>(width_);
    const auto speed = at::reciprocal(at::pow(base_, power));
    const auto angle = positions.to(options).unsqueeze(-1) * speed;
    return at::cat({angle, angle}, -1);
  }
  bool fits(const at::Tensor& x, std::int64_t end) const {
    return tables_->length() >= end && tables_->cos.device() == x.device() &&
           tables_->cos.scalar_type() == wide(x);
  }
  void make(const at::Tensor& x, std::int64_t length) const {
    const at::NoGradGuard no_grad;
    const auto angle = angles(at::arange(length, x.options().dtype(at::kLong)), x);
    *tables_ = {angle.cos(), angle.sin()};
  }
  at::Tensor turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const {
    const auto half = width_ / 2;
    const auto turned = at::cat({x.slice(-1, half).neg(), x.slice(-1, 0, half)}, -1);
    return at::add(x * cos, turned * sin).to(x.scalar_type());
  }

  std::int64_t width_;
  double base_;
  std::shared_ptr<Tables> tables_ = std::make_shared<Tables>();
};

}  // namespace ikebana::modules
