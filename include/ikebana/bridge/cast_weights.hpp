#pragma once
// Autocast's cache of cast weights, beside an autocast that is open around all that changes them.
#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// Clears the cache of cast weights where an autocast is open on this thread: the weights have
/// changed. LibTorch itself clears it only where the outermost autocast ends, so that forward would
/// go on with the former weights. The casts that a graph uses stay with it; another thread whose
/// casts are in the cache, which is one for the process, casts again. Costs some nanoseconds
/// without an open autocast.
void forget_cast_weights(c10::DeviceType device) noexcept;

/// RAII: a computation that neither uses casts of weights that were cached before it, nor leaves
/// its own. (A cast that was cached without gradients has none.)
class OwnCastWeights {
 public:
  explicit OwnCastWeights(c10::DeviceType device);
  ~OwnCastWeights() { forget_cast_weights(device_); }
  OwnCastWeights(const OwnCastWeights&) = delete;
  OwnCastWeights& operator=(const OwnCastWeights&) = delete;

 private:
  c10::DeviceType device_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/cast_weights.ipp>
#endif
