#pragma once
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ModesOfModules::ModesOfModules(torch::nn::Module& root) {
  for (auto& module : root.modules()) modes_.emplace_back(module, module->is_training());
}

IKEBANA_INLINE ModesOfModules::~ModesOfModules() {  // parents before children, because train() also
                                                    // sets the children
  for (auto& [module, training] : modes_) module->train(training);
}

}  // namespace ikebana::detail
