#pragma once
// The base of the precisions with BF16 weights: it decides which parameters are BF16.
#include <ikebana/model/rule.hpp>
#include <ikebana/precision/autocast.hpp>
#include <string>

namespace ikebana {

/// Returns true for parameters of at most one dimension, which take few bytes. These are biases,
/// and the weights of norms, whose kernels on a CPU do not accept BF16 weights with FP32 inputs.
/// The biases of torch::nn::RNN, LSTM and GRU are left out, because cuDNN requires them in the
/// dtype of their matrices.
bool biases_and_norms(const std::string& name, const at::Tensor& parameter);

}  // namespace ikebana

namespace ikebana::detail {

/// Autocast to BF16 for a model with some BF16 parameters.
struct LowPrecisionWeights : Autocast<at::kBFloat16> {
 protected:
  /// Stores for each unit the dtypes of its parameters, and which of them become BF16. Throws
  /// BadValue if `keep_fp32` is empty, or is a name pattern that matches no parameter.
  void choose(const UnitTable& table, const ParameterRule& keep_fp32);
  void check_rule(const ParameterRule& keep_fp32) const;
  /// Returns true for FP32 and 16-bit dtypes. Doubles are not converted; autocast does not convert
  /// them either.
  static bool is_float(at::ScalarType type);
  /// If Shard has merged or split a unit's parameters, all of its tensors are BF16.
  bool is_low(const Unit& unit, std::size_t i, std::size_t count) const;
  at::ScalarType original_dtype(const Unit& unit, std::size_t i, std::size_t count) const;

 private:
  struct Chosen {
    std::vector<at::ScalarType> types;
    std::vector<bool> low;
  };
  ParameterRule rule_;  // the value when the trainer was made
  std::vector<Chosen> units_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/low_precision_weights.ipp>
#endif
