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
    host_.copy_(flag, /*non_blocking=*/true);
    arrived_.recordOnce(c10::impl::VirtualGuardImpl(flag.device().type()).getStream(flag.device()));
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
