#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/rotary_scaling.hpp>
#include <numbers>

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

}  // namespace ikebana::modules
