#pragma once
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/sigpipe.hpp>
#include <ikebana/shard/group/backends.hpp>

namespace ikebana::detail {

IKEBANA_INLINE c10::intrusive_ptr<c10d::Backend> make_gloo(
    const c10::intrusive_ptr<c10d::Store>& store, std::int64_t rank, std::int64_t size,
    std::chrono::milliseconds timeout, bool all_local) {
  using Gloo = c10d::ProcessGroupGloo;
  const SigpipeBlock of_its_threads;  // which write to ranks that may have ended
  auto options = Gloo::Options::create(timeout);
  options->threads = 1;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0')
    options->devices.push_back(Gloo::createDeviceForInterface(interface));
  else if (all_local) options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  else options->devices.push_back(Gloo::createDefaultDevice());
  return c10::make_intrusive<Gloo>(store, static_cast<int>(rank), static_cast<int>(size), options);
}

IKEBANA_INLINE void check_nccl() {
  if (!has_nccl)
    throw BadValue(
        "ProcessGroup: the model is on a CUDA device, and the program was compiled without NCCL. "
        "Compile with USE_C10D_NCCL, CUDA's headers and nccl.h, as CMake does where it finds them, "
        "or give the ProcessGroup the option backend = Backend::Gloo, which is slower.");
}

IKEBANA_INLINE c10::intrusive_ptr<c10d::Backend> make_nccl(
    [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
    [[maybe_unused]] std::int64_t rank, [[maybe_unused]] std::int64_t size,
    [[maybe_unused]] std::chrono::milliseconds timeout) {
  check_nccl();
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank),
                                                     static_cast<int>(size), options);
#else
  return nullptr;
#endif
}

}  // namespace ikebana::detail
