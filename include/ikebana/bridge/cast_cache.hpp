#pragma once
// Asks autocast's cache of cast weights on a CPU: which casts it has, and whether it was cleared.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::bridge {

/// Returns true if the present autocast of a CPU casts a weight once, for all that use it.
inline bool caches_weight_casts() {
  return at::autocast::is_autocast_enabled(at::kCPU) && at::autocast::is_autocast_cache_enabled();
}

/// Returns the cast of a weight for the present autocast of a CPU; makes it if the cache has none.
inline at::Tensor weight_cast(const at::Tensor& weight) {
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kCPU), weight, at::kCPU);
}

/// Ends what LibTorch does if it has no cast: it makes one, and cannot be asked otherwise.
struct NotCached {};

/// Returns the cast of a weight that the cache has for the present autocast of a CPU, or an
/// undefined tensor. Makes none. Costs some microseconds.
inline at::Tensor cached_weight_cast(const at::Tensor& weight) {
  struct MakesNone : OperatorMode {
    void call(OperatorCall&) override { throw NotCached(); }
  } makes_none;
  try {
    const OperatorScope<> scope(makes_none);
    return weight_cast(weight);
  } catch (const NotCached&) {
    return {};
  }
}

/// A cast in the cache that no code uses. The process has one cache, and each thread clears it when
/// its outermost autocast ends: the mark is then gone with all casts.
class CastCacheMark {
 public:
  /// Makes none if nothing is cached.
  CastCacheMark() {
    if (!caches_weight_casts()) return;
    weight_ = at::zeros({1}).requires_grad_(true);
    cast_ = weight_cast(weight_);
  }
  /// Returns true if the cache was not cleared since.
  bool is_there() const { return !cast_.defined() || cached_weight_cast(weight_).is_same(cast_); }

 private:
  at::Tensor weight_, cast_;
};

}  // namespace ikebana::bridge
