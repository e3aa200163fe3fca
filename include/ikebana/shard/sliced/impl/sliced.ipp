#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/sliced.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_late(const std::string& unit) {
  throw BadModel("step: unit `" + unit +
                 "` got gradients after those of all its uses had been summed over ranks, as by a "
                 "backward pass within the loss. Let the loss compute gradients of its inputs "
                 "alone: torch::autograd::grad.");
}

}  // namespace ikebana::detail
