#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/exporting.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/rotary.hpp>
#include <numbers>
#include <string>

namespace ikebana::modules {

IKEBANA_INLINE void RotaryScaling::check() const {
  if (!(factor > 0) || !std::isfinite(factor))
    throw BadValue("rotary: the scaling's factor is " + c10::str(factor) +
                   ". Give a positive number, 8 for texts that are 8 times as long.");
  if (original_max_position_embeddings < 0)
    throw BadValue("rotary: the scaling's original_max_position_embeddings is " +
                   std::to_string(original_max_position_embeddings) +
                   ". Give a number of tokens, or 0 for linear scaling.");
  if (original_max_position_embeddings > 0 &&
      !(low_freq_factor > 0 && high_freq_factor > low_freq_factor &&
        std::isfinite(high_freq_factor)))
    throw BadValue("rotary: the scaling's low_freq_factor is " + c10::str(low_freq_factor) +
                   " and its high_freq_factor is " + c10::str(high_freq_factor) +
                   ". Give two positive numbers in ascending order, as 1 and 4.");
}

IKEBANA_INLINE at::Tensor RotaryScaling::operator()(const at::Tensor& frequency) const {
  if (factor == 1) return frequency;
  if (original_max_position_embeddings == 0) return frequency / factor;
  const auto length = static_cast<double>(original_max_position_embeddings);
  const auto turn = 2 * std::numbers::pi / frequency;  // in positions
  const auto share = (length / turn - low_freq_factor) / (high_freq_factor - low_freq_factor);
  const auto between = (1 - share) * frequency / factor + share * frequency;
  const auto is_slow = turn > length / low_freq_factor, is_fast = turn < length / high_freq_factor;
  return at::where(is_slow, frequency / factor, at::where(is_fast, frequency, between));
}

IKEBANA_INLINE Rotary::Rotary(std::int64_t width, double base, const RotaryScaling& scaling)
    : width_(width), base_(base), scaling_(scaling) {
  scaling_.check();
  if (width <= 0 || width % 2 != 0)
    throw Error("rotary: width is " + std::to_string(width) +
                "; it must be the width of one head, even and positive");
  if (!(base > 0 && std::isfinite(base)))
    throw Error("rotary: base is " + c10::str(base) + "; it must be positive and finite");
}

IKEBANA_INLINE at::Tensor Rotary::operator()(const at::Tensor& x, std::int64_t offset) const {
  check(x);
  if (offset < 0)
    throw Error("rotary: offset is " + std::to_string(offset) +
                "; it must be 0 or more, since positions count from 0");
  const auto end = offset + x.size(-2);
  // An exported program computes the tables for its own length, once for all layers.
  const auto length = detail::exporting() ? end : std::max(end, 2 * tables_->length());
  if (!tables_fit(x, end)) make_tables(x, length);
  return rotate(x, tables_->cos.slice(0, offset, end), tables_->sin.slice(0, offset, end));
}

IKEBANA_INLINE at::Tensor Rotary::operator()(const at::Tensor& x,
                                             const at::Tensor& positions) const {
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

IKEBANA_INLINE void Rotary::check(const at::Tensor& x) const {
  if (!x.defined()) throw Error("rotary: x is an undefined tensor; pass queries or keys");
  if (x.dim() < 2 || x.size(-1) != width_ || !x.is_floating_point())
    throw Error("rotary: x is " + c10::str(x.sizes()) + " of " + c10::toString(x.scalar_type()) +
                "; it must be (..., T, " + std::to_string(width_) + ") of a floating dtype");
}

IKEBANA_INLINE void Rotary::check_positions(const at::Tensor& positions, const at::Tensor& x) {
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

IKEBANA_INLINE at::ScalarType Rotary::wide_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

IKEBANA_INLINE at::Tensor Rotary::angles(const at::Tensor& positions, const at::Tensor& x) const {
  const auto options = x.options().dtype(wide_dtype(x)).requires_grad(false);
  const auto exponent = at::arange(0, width_, 2, options) / static_cast<double>(width_);
  const auto frequency = scaling_(at::reciprocal(at::pow(base_, exponent)));
  const auto angle = positions.to(options).unsqueeze(-1) * frequency;
  return at::cat({angle, angle}, -1);
}

IKEBANA_INLINE bool Rotary::tables_fit(const at::Tensor& x, std::int64_t end) const {
  const bool is_own = !detail::exporting() || (tables_->export_number == detail::export_number() &&
                                               tables_->length() == end);
  return is_own && tables_->length() >= end && tables_->cos.device() == x.device() &&
         tables_->cos.scalar_type() == wide_dtype(x);
}

IKEBANA_INLINE void Rotary::make_tables(const at::Tensor& x, std::int64_t length) const {
  const at::NoGradGuard no_grad;
  const auto angle = angles(at::arange(length, x.options().dtype(at::kLong)), x);
  *tables_ = {angle.cos(), angle.sin(), detail::export_number()};
}

IKEBANA_INLINE at::Tensor Rotary::rotate(const at::Tensor& x, const at::Tensor& cos,
                                         const at::Tensor& sin) const {
  // Autocast would convert the two halves of a row to its dtype in `cat`, or refuse the dtype of x.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto half = width_ / 2;
  const auto rotated_half = at::cat({x.slice(-1, half).neg(), x.slice(-1, 0, half)}, -1);
  return at::add(x * cos, rotated_half * sin).to(x.scalar_type());
}

}  // namespace ikebana::modules
