#pragma once
// A flag that a device computes, on its way to the host.
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// A copy of a device's flag (one element) in pinned memory of the host, asked for without a wait.
class FlagCopy {
 public:
  explicit FlagCopy(const at::Tensor& flag);
  /// Whether `ask` may be called with a flag such as this one.
  bool fits(const at::Tensor& flag) const;
  /// Copies another flag, in the same memory and with the same event. The one before has arrived.
  void ask(const at::Tensor& flag);
  bool has_arrived() const { return arrived_.query(); }
  /// Waits until the device has reached the copy. True if the flag is not 0.
  bool wait();

 private:
  at::Tensor host_;
  c10::Event arrived_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/flag_copy.ipp>
#endif
