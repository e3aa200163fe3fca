#pragma once
// Copies a flag that a device computes to the host.
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// A copy of a device's flag (one element) in pinned memory of the host, which is begun without
/// waiting.
class FlagCopy {
 public:
  explicit FlagCopy(const at::Tensor& flag);
  /// Returns whether `ask` may be called with a flag of this dtype and device.
  bool fits(const at::Tensor& flag) const;
  /// Copies another flag to the same memory, with the same event. The flag before must have
  /// arrived.
  void ask(const at::Tensor& flag);
  bool has_arrived() const { return arrived_.query(); }
  /// Waits until the copy has arrived. Returns whether the flag is not 0.
  bool wait();

 private:
  at::Tensor host_;
  c10::Event arrived_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/flag_copy.ipp>
#endif
