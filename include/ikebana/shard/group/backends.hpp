#pragma once
// How process groups of LibTorch are made: Gloo among hosts, NCCL among CUDA devices.
#include <chrono>
#include <ikebana/detail/torch_c10d.hpp>

namespace ikebana {

/// What carries the tensors of a model on a device.
enum class Backend : std::uint8_t {
  NCCL,  ///< of CUDA devices alone
  Gloo   ///< by copies in host memory
};

namespace detail {

/// Connects with all ranks. `all_local`: they are on this machine, and GLOO_SOCKET_IFNAME, which
/// names a network interface, is not needed.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            std::int64_t rank, std::int64_t size,
                                            std::chrono::milliseconds timeout, bool all_local);

/// Whether the program was compiled with NCCL.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
inline constexpr bool has_nccl = true;
#else
inline constexpr bool has_nccl = false;
#endif

/// Throws BadValue where the program was compiled without it.
void check_nccl();

/// As `make_gloo`, among CUDA devices.
c10::intrusive_ptr<c10d::Backend> make_nccl(
    [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
    [[maybe_unused]] std::int64_t rank, [[maybe_unused]] std::int64_t size,
    [[maybe_unused]] std::chrono::milliseconds timeout);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/backends.ipp>
#endif
