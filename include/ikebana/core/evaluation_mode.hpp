#pragma once
// Evaluation mode, or training mode, for a while.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// RAII: restores each module's own mode. A module with two names is listed twice and must be, so
/// that it is set back after each of its parents.
class ModesOfModules {
 public:
  explicit ModesOfModules(torch::nn::Module& root);
  ~ModesOfModules();
  ModesOfModules(const ModesOfModules&) = delete;
  ModesOfModules& operator=(const ModesOfModules&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};
/// RAII: sets every module to evaluation mode.
struct EvaluationMode : ModesOfModules {
  explicit EvaluationMode(torch::nn::Module& root) : ModesOfModules(root) { root.eval(); }
};
/// RAII: sets every module to training mode.
struct TrainingMode : ModesOfModules {
  explicit TrainingMode(torch::nn::Module& root) : ModesOfModules(root) { root.train(); }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/evaluation_mode.ipp>
#endif
