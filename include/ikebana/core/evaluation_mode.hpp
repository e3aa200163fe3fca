#pragma once
// Evaluation mode for a while.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// RAII: sets every module to evaluation mode, and restores each module's own mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& root) {
    for (auto& module : root.modules()) modes_.emplace_back(module, module->is_training());
    root.eval();
  }
  ~EvaluationMode() {  // parents before children, because train() also sets the children
    for (auto& [module, training] : modes_) module->train(training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

}  // namespace ikebana::detail
