#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/fit.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool note_stop(StopWish wish, History& history) {
  history.terminated = wish == StopWish::Terminated;
  history.stopped = wish != StopWish::No;
  return history.stopped;
}

}  // namespace ikebana::detail
