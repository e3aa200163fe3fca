#pragma once
// Evaluation mode and training mode of a model: sets one for a while, and warns of the wrong one.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// RAII: restores each module's own mode. A module with two names is listed twice and must be, so
/// that it is set back after each of its parents. The root need not be owned by a shared pointer.
class ModesOfModules {
 public:
  explicit ModesOfModules(torch::nn::Module& root);
  ~ModesOfModules();
  ModesOfModules(const ModesOfModules&) = delete;
  ModesOfModules& operator=(const ModesOfModules&) = delete;

 private:
  torch::nn::Module& root_;
  bool root_trains_;
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
/// Warns once of a model that trains in evaluation mode, which is most often left from a use of the
/// user's own: `evaluate` and `predict` put back what was there.
class ModeWarning {
 public:
  void check(const torch::nn::Module& model);

 private:
  bool was_given_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/evaluation_mode.ipp>
#endif
