#pragma once
#include <ikebana/core/busy_guard.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE BusyGuard::BusyGuard(std::atomic<bool>& flag) : flag_(flag) {
  if (flag_.exchange(true))
    throw Error(
        "trainer: it is in the middle of a step. A trainer belongs to one thread at a time and "
        "cannot be called from its own loss; make a second trainer, or wait.");
}

}  // namespace ikebana::detail
