#pragma once
// Defines process groups of LibTorch: Gloo among hosts, NCCL among CUDA devices.
#include <chrono>
#include <ikebana/detail/torch_c10d.hpp>

namespace ikebana {

/// The backend that carries the tensors of a model on a device.
enum class Backend : std::uint8_t {
  NCCL,  ///< for CUDA devices only
  Gloo   ///< with copies in host memory
};

namespace detail {

/// Connects with all ranks. With `all_local` they are on this machine, and GLOO_SOCKET_IFNAME,
/// which names a network interface, is not needed.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            std::int64_t rank, std::int64_t size,
                                            std::chrono::milliseconds timeout, bool all_local);

/// It is true if the program was compiled with NCCL.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
inline constexpr bool has_nccl = true;
#else
inline constexpr bool has_nccl = false;
#endif

/// Throws BadValue if the program was compiled without NCCL.
void check_nccl();

/// Connects with all ranks, for tensors on CUDA devices.
c10::intrusive_ptr<c10d::Backend> make_nccl(
    [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
    [[maybe_unused]] std::int64_t rank, [[maybe_unused]] std::int64_t size,
    [[maybe_unused]] std::chrono::milliseconds timeout);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/backends.ipp>
#endif
