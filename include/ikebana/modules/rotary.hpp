#pragma once
// Defines modules::Rotary: rotary position embedding.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <memory>

namespace ikebana::modules {

/// Scales the frequencies of a Rotary down for texts that are longer than in training, with the
/// field names of `rope_parameters` in Hugging Face's config.json. By default each frequency is
/// divided by `factor` (linear scaling). With `original_max_position_embeddings` it scales as Llama
/// 3.1: a frequency is divided if it turns fewer than `low_freq_factor` times in a text of that
/// length, stays if it turns more than `high_freq_factor` times, and is between the two otherwise.
/// Costs time only when tables are made. Source: Grattafiori et al., The Llama 3 Herd of Models,
/// 2024.
struct RotaryScaling {
  double factor = 1;            ///< divides frequencies
  double low_freq_factor = 1;   ///< turns within the original length
  double high_freq_factor = 4;  ///< turns within the original length
  /// Length of texts before scaling, in tokens; 0: all frequencies are divided.
  std::int64_t original_max_position_embeddings = 0;

  /// Throws BadValue for a factor that is not positive, for a length below 0, and as Llama 3.1 for
  /// turns that are not positive or not in ascending order.
  void check() const;
  /// Scales frequencies in radians per position, by the operators of transformers.
  at::Tensor operator()(const at::Tensor& frequency) const;
};

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
  /// positive, and BadValue as RotaryScaling::check does.
  explicit Rotary(std::int64_t width, double base = 10000, const RotaryScaling& scaling = {});

  /// Rotates x (..., T, width), at the positions offset to offset + T - 1. Throws Error if x does
  /// not fit.
  at::Tensor operator()(const at::Tensor& x, std::int64_t offset = 0) const;
  /// Rotates x (B, H, T, width) at `positions` (B, T), or x (..., T, width) at `positions` (T),
  /// which are integers from 0. Throws Error if they do not fit.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;

 private:
  struct Tables {
    at::Tensor cos, sin;              // (positions, width)
    std::uint64_t export_number = 0;  // the number of the export that made them
    std::int64_t length() const { return cos.defined() ? cos.size(0) : 0; }
  };

  void check(const at::Tensor& x) const;
  // Does not read the values of a device's tensor, which would wait for the device.
  static void check_positions(const at::Tensor& positions, const at::Tensor& x);
  static at::ScalarType wide_dtype(const at::Tensor& x);

  // Returns the angles of the pairs, once for each half. Takes (positions...), and returns
  // (positions..., width).
  at::Tensor angles(const at::Tensor& positions, const at::Tensor& x) const;
  bool tables_fit(const at::Tensor& x, std::int64_t end) const;
  void make_tables(const at::Tensor& x, std::int64_t length) const;
  at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) const;

  std::int64_t width_;
  double base_;
  RotaryScaling scaling_;
  std::shared_ptr<Tables> tables_ = std::make_shared<Tables>();
};

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/rotary.ipp>
#endif
