#pragma once
// Clears autocast's cache of cast weights, if an autocast stays open while the weights change.
#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// Clears the cache of cast weights if an autocast is open on this thread, because the weights have
/// changed. LibTorch itself clears it only when the outermost autocast ends, so forward would go on
/// with the former weights. A graph keeps the casts that it uses. The cache is one for the process,
/// so other threads cast their weights again. Costs some nanoseconds without an open autocast.
void forget_cast_weights(c10::DeviceType device) noexcept;

/// RAII: a computation within it neither uses casts of weights that were cached before, nor leaves
/// its own. (A cast that was cached without gradients has no gradient.)
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
