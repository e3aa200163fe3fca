#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

IKEBANA_INLINE void PrecisionHooks::refuse_loss(const std::string& where) {
  throw NonFinite("step: the loss is not finite" + where +
                  "; nothing was updated. Lower the learning rate, or look for an invalid value "
                  "in the batch.");
}

}  // namespace ikebana
