#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/staged_tensors.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StagedTensors::replace(TensorsOfRanks& to, TensorsOfRanks& from) {
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

IKEBANA_INLINE void StagedTensors::replace(at::Tensor& t) {
  TensorsOfRanks list{{t}}, none;
  replace(list, none);
  received_.push_back({t, list[0][0]});
  t = list[0][0];
}

IKEBANA_INLINE void StagedTensors::put_back() {
  const at::NoGradGuard no_grad;
  // As a message in place, which no version of a tensor counts.
  for (const Pair& one : received_)
    one.on_device.variable_data().copy_(one.on_host, /*non_blocking=*/true);
  received_.clear();
}

IKEBANA_INLINE at::Tensor StagedTensors::copy_of(const at::Tensor& t, Pairs& copies) {
  for (const Pair& one : copies)
    if (one.on_device.const_data_ptr() == t.const_data_ptr() &&
        one.on_device.sizes() == t.sizes() && one.on_device.dtype() == t.dtype())
      return one.on_host;
  copies.push_back({t, host_memory(t)});
  copies.back().on_host.copy_(t.detach(), /*non_blocking=*/true);
  return copies.back().on_host;
}

IKEBANA_INLINE at::Tensor StagedTensors::host_memory(const at::Tensor& like) {
  const auto options = like.options().device(at::kCPU).requires_grad(false);
  try {
    return at::empty(like.sizes(), options.pinned_memory(true));
  } catch (const c10::Error&) {  // the device has no pinned memory, or there is no more of it
    return at::empty(like.sizes(), options);
  }
}

IKEBANA_INLINE void StagedTensors::wait_for_stream(c10::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace ikebana::detail
