#pragma once
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/bridge/host_copies.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE StreamEvent::StreamEvent(const c10::Stream& stream)
    : event_(ikebana::detail::make_shared_apart<c10::Event>(stream.device_type())) {
  event_->record(stream);
}

IKEBANA_INLINE void StreamEvent::block(const c10::Stream& stream) const {
  if (event_) stream.wait(*event_);
}

IKEBANA_INLINE void StreamEvent::synchronize() const {
  if (event_) event_->synchronize();
}

IKEBANA_INLINE void StreamEvent::synchronize_quietly() const noexcept {
  try {
    synchronize();
  } catch (...) {
  }
}

IKEBANA_INLINE HostCopies::HostCopies(c10::Device device) : device_(device) {
  if (!has_copy_streams(device) || ikebana::detail::without_values()) return;
  to_host_ = copy_stream(device, CopyStream::ToHost);
  to_device_ = copy_stream(device, CopyStream::ToDevice);
}

IKEBANA_INLINE at::Tensor HostCopies::host_memory(at::IntArrayRef sizes, at::IntArrayRef strides,
                                                  at::ScalarType type) const {
  const auto options = at::TensorOptions(at::kCPU).dtype(type);
  return at::empty_strided(sizes, strides, overlap() ? options.pinned_memory(true) : options);
}

IKEBANA_INLINE StreamEvent HostCopies::to_host(const at::Tensor& on_host, const at::Tensor& source,
                                               const StreamEvent& after) const {
  return copy(on_host, source, to_host_, after);
}

IKEBANA_INLINE StreamEvent HostCopies::to_device(const at::Tensor& on_device,
                                                 const at::Tensor& source,
                                                 const StreamEvent& after) const {
  return copy(on_device, source, to_device_, after);
}

IKEBANA_INLINE void HostCopies::wait_for(const StreamEvent& event) const {
  if (event) event.block(computes());
}

IKEBANA_INLINE void HostCopies::wait_for_quietly(const StreamEvent& event) const noexcept {
  try {
    wait_for(event);
  } catch (...) {
    event.synchronize_quietly();
  }
}

IKEBANA_INLINE c10::Stream HostCopies::computes() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

IKEBANA_INLINE StreamEvent HostCopies::copy(const at::Tensor& to, const at::Tensor& from,
                                            const std::optional<c10::Stream>& on,
                                            const StreamEvent& after) const {
  const at::NoGradGuard no_grad;
  if (!on) {
    to.copy_(from);
    return {};
  }
  StreamEvent(computes()).block(*on);
  after.block(*on);
  {
    const c10::StreamGuard guard(*on);
    to.copy_(from, /*non_blocking=*/true);
  }
  return StreamEvent(*on);
}

}  // namespace ikebana::bridge
