#pragma once
#include <ikebana/core/transaction.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_no_unit() {
  throw BadModel(
      "step: a policy of the recipe works unit by unit, and the loss ran no unit. Write "
      "run(block, x) in the model's loss instead of block(x).");
}

}  // namespace ikebana::detail
