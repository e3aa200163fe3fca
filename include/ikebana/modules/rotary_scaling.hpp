#pragma once
// modules::RotaryScaling: slower rotation, for longer texts.
#include <cmath>
#include <cstdint>
#include <numbers>

#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::modules {

/// How the frequencies of a Rotary are made smaller for texts that are longer than those of the
/// training, with the field names of `rope_parameters` in Hugging Face's config.json. Linear: each
/// is divided by `factor`. With `original_max_position_embeddings` as Llama 3.1: a frequency is
/// divided if it turns fewer than `low_freq_factor` times in a text of that length, stays if it
/// turns more than `high_freq_factor` times, and is between the two otherwise. Costs nothing where
/// tables are used. Source: Grattafiori et al., The Llama 3 Herd of Models, 2024.
struct RotaryScaling {
  double factor = 1;            ///< by which frequencies are divided
  double low_freq_factor = 1;   ///< turns within the original length
  double high_freq_factor = 4;  ///< turns within the original length
  /// In tokens, of the texts before scaling; 0: all frequencies are divided.
  std::int64_t original_max_position_embeddings = 0;

  /// Throws BadValue for a factor that is not positive, for a length below 0, and as Llama 3.1 for
  /// turns that are not positive or not in ascending order.
  void check() const {
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
  /// Frequencies in radians per position to scaled ones, by transformers' operators.
  at::Tensor operator()(const at::Tensor& frequency) const {
    if (factor == 1) return frequency;
    if (original_max_position_embeddings == 0) return frequency / factor;
    const auto length = static_cast<double>(original_max_position_embeddings);
    const auto turn = 2 * std::numbers::pi / frequency;  // in positions
    const auto share = (length / turn - low_freq_factor) / (high_freq_factor - low_freq_factor);
    const auto between = (1 - share) * frequency / factor + share * frequency;
    const auto is_slow = turn > length / low_freq_factor,
               is_fast = turn < length / high_freq_factor;
    return at::where(is_slow, frequency / factor, at::where(is_fast, frequency, between));
  }
};

}  // namespace ikebana::modules
