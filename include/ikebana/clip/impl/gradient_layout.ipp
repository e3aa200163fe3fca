#pragma once
#include <ikebana/clip/gradient_layout.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks.hpp>
#include <string>

namespace ikebana::detail {

IKEBANA_INLINE void check_layout(const char* policy, const at::Tensor& gradient) {
  if (gradient.layout() != at::kStrided && !gradient.is_sparse())
    throw BadModel(std::string(policy) + ": a gradient of shape " + c10::str(gradient.sizes()) +
                   " has layout " + c10::str(gradient.layout()) +
                   ", which is not supported. Make it dense, or sparse by rows (COO).");
}

}  // namespace ikebana::detail
