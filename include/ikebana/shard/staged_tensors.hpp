#pragma once
// Tensors of a device, for a backend that sends and receives host memory alone.
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Host memory in place of a device's tensors while they are on their way. It is pinned where
/// LibTorch can pin memory for the device. Tensors are contiguous.
class StagedTensors {
 public:
  /// Puts copies of what is sent, and memory for what is received, in place of the tensors in the
  /// lists. Waits for the current stream of their device, once: what is sent has been copied then,
  /// and what is received is no longer in use. A tensor that several ranks are sent is copied once.
  void replace(TensorsOfRanks& to, TensorsOfRanks& from) {
    const at::NoGradGuard no_grad;
    Pairs sent;
    for (auto& list : to)
      for (at::Tensor& t : list) t = copy_of(t, sent);
    for (auto& list : from)
      for (at::Tensor& t : list) t = received_.emplace_back(Pair{t, host_memory(t)}).on_host;
    for (const Pairs* pairs : {&sent, &received_})
      for (const Pair& one : *pairs) bytes_ += static_cast<std::int64_t>(one.on_host.nbytes());
    if (const Pairs& any = sent.empty() ? received_ : sent; !any.empty())
      wait_for_stream(any[0].on_device.device());
  }
  /// The same of a tensor whose sum over ranks replaces it.
  void replace(at::Tensor& t) {
    TensorsOfRanks list{{t}}, none;
    replace(list, none);
    received_.push_back({t, list[0][0]});
    t = list[0][0];
  }
  /// Copies what was received to the device, on its current stream, and forgets it.
  void put_back() {
    const at::NoGradGuard no_grad;
    // As a message in place, which no version of a tensor counts.
    for (const Pair& one : received_)
      one.on_device.variable_data().copy_(one.on_host, /*non_blocking=*/true);
    received_.clear();
  }
  /// Of the host memory.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Pair {
    at::Tensor on_device, on_host;
  };
  using Pairs = std::vector<Pair>;

  static at::Tensor copy_of(const at::Tensor& t, Pairs& copies) {
    for (const Pair& one : copies)
      if (one.on_device.const_data_ptr() == t.const_data_ptr() &&
          one.on_device.sizes() == t.sizes() && one.on_device.dtype() == t.dtype())
        return one.on_host;
    copies.push_back({t, host_memory(t)});
    copies.back().on_host.copy_(t.detach(), /*non_blocking=*/true);
    return copies.back().on_host;
  }
  static at::Tensor host_memory(const at::Tensor& like) {
    const auto options = like.options().device(at::kCPU).requires_grad(false);
    try {
      return at::empty(like.sizes(), options.pinned_memory(true));
    } catch (const c10::Error&) {  // the device has no pinned memory, or there is no more of it
      return at::empty(like.sizes(), options);
    }
  }
  static void wait_for_stream(c10::Device device) {
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  }

  Pairs received_;
  std::int64_t bytes_ = 0;
};

}  // namespace ikebana::detail
