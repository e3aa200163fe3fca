#pragma once
// Which parameters of this process are in training, and whether a model can be trained.
#include <ikebana/detail/process_registry.hpp>

namespace ikebana::detail {

/// The parameters that a trainer of this process trains; each has a count of 1.
struct __attribute__((visibility("default"))) ClaimedParameters {};
using ClaimRegistry = ProcessRegistry<ClaimedParameters>;

/// Claims parameters for one trainer during its lifetime. Throws BadModel where another trainer has
/// claimed one of them.
class ParameterClaim {
 public:
  explicit ParameterClaim(std::vector<at::Tensor> parameters);
  ~ParameterClaim();
  ParameterClaim(const ParameterClaim&) = delete;
  ParameterClaim& operator=(const ParameterClaim&) = delete;

 private:
  void release(ClaimRegistry& registry) noexcept;

  std::vector<at::Tensor> parameters_;
};

/// Throws BadModel for a module without parameters, with none to train, without values, or on two
/// devices.
void check_trainable(const torch::nn::Module& module);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/claim.ipp>
#endif
