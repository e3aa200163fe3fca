#pragma once
// Remembers the parameters and buffers that a model had when its trainer was made: a tensor that
// replaces one of them, or is registered later, would be neither trained nor saved.
#include <ikebana/detail/torch.hpp>
#include <map>
#include <string>
#include <vector>

namespace ikebana::detail {

/// The registered tensors of a model, compared by identity. A write to one, or a move of the model
/// to another device, does not count as a change.
class RegisteredTensors {
 public:
  explicit RegisteredTensors(const torch::nn::Module& model);
  /// Throws BadModel, which names each change. Costs a walk over the model's modules.
  void check(const torch::nn::Module& model) const;

 private:
  using Tensors = std::map<std::string, at::Tensor>;  // the tensors, by name

  static Tensors registered(const torch::nn::Module& model);
  /// Compares the members of LibTorch's modules. A member may be a tensor that is registered
  /// elsewhere, since that is how weights are tied.
  static void check_members(const torch::nn::Module& model, const Tensors& now);
  static std::string joined(const std::vector<std::string>& all);

  Tensors tensors_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/registered_tensors.ipp>
#endif
