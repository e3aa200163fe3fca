#pragma once
// A flag that a device computes, on its way to the host.
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// A copy of a device's flag (one element) in pinned memory of the host, asked for without a wait.
class FlagCopy {
 public:
  explicit FlagCopy(const at::Tensor& flag)
      : host_(at::empty({}, flag.options().device(at::kCPU).pinned_memory(true))),
        arrived_(flag.device().type()) {
    ask(flag);
  }
  /// Whether `ask` may be called with a flag such as this one.
  bool fits(const at::Tensor& flag) const {
    return host_.dtype() == flag.dtype() && arrived_.device_type() == flag.device().type() &&
           (arrived_.device_index() < 0 || arrived_.device_index() == flag.device().index());
  }
  /// Copies another flag, in the same memory and with the same event. The one before has arrived.
  void ask(const at::Tensor& flag) {
    host_.copy_(flag, /*non_blocking=*/true);
    arrived_.record(c10::impl::VirtualGuardImpl(flag.device().type()).getStream(flag.device()));
  }
  bool has_arrived() const { return arrived_.query(); }
  /// Waits until the device has reached the copy. True if the flag is not 0.
  bool wait() {
    arrived_.synchronize();
    return number_on_host(host_) != 0;
  }

 private:
  at::Tensor host_;
  c10::Event arrived_;
};

}  // namespace ikebana::detail
