#pragma once
// The copy of a state in memory that training waits for in an asynchronous save.
#include <ikebana/state/archive.hpp>
#include <memory>

namespace ikebana::detail {

/// A device on which the state has tensors; the CPU if it has none.
c10::Device device_of(const StateDict& state);

/// Memory of the host, which a device copies to without the host's help if it is pinned.
std::shared_ptr<void> allocate_block(std::size_t size, bool pinned);

/// Uninitialised tensors on the CPU with the names, shapes and dtypes of `state`, in one block of
/// memory: pinned if the state has tensors on a device, else in large pages where the system has
/// them. With small pages, the first copy waits longer for page faults than for the bytes.
StateDict allocate_like(const StateDict& state);

/// `to` is dense, on the CPU and of the type of `from`. Uses LibTorch's threads. A copy from a
/// device is complete after `wait_for_copies`.
void copy_bytes(const at::Tensor& to, const at::Tensor& from);

/// Waits until all copies from the devices of a state are complete.
void wait_for_copies(const StateDict& state);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/copy.ipp>
#endif
