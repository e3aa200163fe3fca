#pragma once
// modules::RotaryScaling: slower rotation, for longer texts.
#include <cstdint>
#include <ikebana/detail/torch.hpp>

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
  void check() const;
  /// Frequencies in radians per position to scaled ones, by transformers' operators.
  at::Tensor operator()(const at::Tensor& frequency) const;
};

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/rotary_scaling.ipp>
#endif
