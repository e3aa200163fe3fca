#pragma once
#include <ikebana/core/transaction.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void Outputs::add(Loss& loss) {
  if (loss.outputs.defined()) all_.push_back(std::exchange(loss.outputs, {}).detach());
}

IKEBANA_INLINE at::Tensor Outputs::joined() const {
  return all_.empty() ? at::Tensor() : all_.size() == 1 ? all_[0] : at::cat(all_);
}

}  // namespace ikebana::detail
