#pragma once
// Claims a model's parameters for one trainer of this process, and checks that it can be trained.
#include <ikebana/detail/process_registry.hpp>
#include <ikebana/model.hpp>
#include <vector>

namespace ikebana::detail {

/// Names the registry of the parameters that trainers of this process train; each has a count of 1.
struct __attribute__((visibility("default"))) ClaimedParameters {};
using ClaimRegistry = ProcessRegistry<ClaimedParameters>;

/// Claims parameters for one trainer during its lifetime. Throws BadModel if another trainer has
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

/// The parameters that require a gradient.
std::vector<at::Tensor> trained_parameters(const UnitTable& table);
/// Throws BadModel if a module has no parameters, trains no parameter, has no values, or lies on
/// two devices.
void check_trainable(const torch::nn::Module& module);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/claim.ipp>
#endif
