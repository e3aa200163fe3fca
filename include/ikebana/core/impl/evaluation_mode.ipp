#pragma once
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ModesOfModules::ModesOfModules(torch::nn::Module& root)
    : root_(root), root_trains_(root.is_training()) {
  for (auto& module : root.modules(/*include_self=*/false))
    modes_.emplace_back(module, module->is_training());
}

IKEBANA_INLINE ModesOfModules::~ModesOfModules() {  // parents before children, because train() also
                                                    // sets the children
  root_.train(root_trains_);
  for (auto& [module, training] : modes_) module->train(training);
}

IKEBANA_INLINE void ModeWarning::check(const torch::nn::Module& model) {
  if (model.is_training() || std::exchange(was_given_, true)) return;
  TORCH_WARN(
      "step: the model is in evaluation mode, so it trains without dropout, and batch norm with "
      "its running statistics. Call model->train() before; where a part is to stay in evaluation "
      "mode, call eval() on that part afterwards.");
}

}  // namespace ikebana::detail
