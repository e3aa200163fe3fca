#pragma once
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/sigpipe.hpp>
#include <ikebana/shard/group/backends.hpp>
#include <stdexcept>

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

IKEBANA_INLINE c10d::Backend& RankBackends::of(c10::Device device) const {
  return device.is_cpu() || on_device_ == nullptr ? *host_ : *on_device_;
}

IKEBANA_INLINE std::string RankBackends::transport(c10::Device device) const {
  const char* by = is_users_own()          ? "a backend of its own"
                   : on_device_ != nullptr ? "NCCL"
                                           : "Gloo";
  return c10::str(device.type(), " by ", by);
}

IKEBANA_INLINE StagedTensors RankBackends::stage(TensorsOfRanks& to, TensorsOfRanks& from,
                                                 c10::Device device) const {
  StagedTensors staged;
  if (stages(device)) staged.replace(to, from), members_->staged_bytes += staged.bytes();
  return staged;
}

IKEBANA_INLINE StagedTensors RankBackends::stage(at::Tensor& t) const {
  StagedTensors staged;
  if (stages(t.device())) staged.replace(t), members_->staged_bytes += staged.bytes();
  return staged;
}

IKEBANA_INLINE at::Tensor RankBackends::to_broadcast(const at::Tensor& t, bool is_received) const {
  if (!stages(t.device())) return t.detach().contiguous();
  members_->staged_bytes += static_cast<std::int64_t>(t.nbytes());
  if (is_received) return at::empty(t.sizes(), t.options().device(at::kCPU));
  return t.detach().to(at::kCPU).contiguous();
}

IKEBANA_INLINE void RankBackends::check(c10::Device device) const {
  if (members_->device_backend == Backend::NCCL && !device.is_cuda())
    throw BadValue("ProcessGroup: backend is NCCL, and the model is on " + device.str() +
                   ". NCCL is of CUDA devices alone: move the model to one, as by the policy On, "
                   "or leave `backend` out.");
  if (uses_nccl(device) && (members_->size > 1 || members_->device_backend)) check_nccl();
}

IKEBANA_INLINE void RankBackends::take_users_own(bool has_failed) {
  if (has_failed)
    throw RankFailed(
        "the process group that the policy was given has failed; make another one, and a new "
        "trainer");
  host_ = members_->backend;
}

IKEBANA_INLINE void RankBackends::replace(c10::intrusive_ptr<c10d::Backend> by) {
  (void)host_.release(), (void)on_device_.release();
  host_ = std::move(by);
}

/// Calls `f`, which connects ranks, in a thread of its own. Throws if a rank's process ends
/// meanwhile, for which Gloo waits until the time limit, or if the store does not answer, for which
/// Gloo waits without end: the thread is left behind then, and the caller has to ask which rank is
/// missing.
template <class F>
auto while_ranks_live(const GroupMembers& members, F f) {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  const Deadline deadline(members.timeout + std::chrono::milliseconds(200));  // after Gloo's own
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (const std::string ended = members.watch->ended(); !ended.empty())
      throw std::runtime_error(ended);
    if (deadline.is_over()) throw std::runtime_error("the ranks did not connect in time");
  }
  return result.get();
}

IKEBANA_INLINE void RankBackends::connect(StorePtr store) {
  store_ = std::move(store);
  host_ = while_ranks_live(*members_, [store = store_, m = members_] {
    return make_gloo(store, m->rank, m->size, m->timeout, m->all_local);
  });
}

IKEBANA_INLINE void RankBackends::connect_devices(c10::Device device) {
  if (is_users_own()) return;
  check(device);
  if (uses_nccl(device))
    on_device_ = make_nccl(store_, members_->rank, members_->size, members_->timeout);
}

IKEBANA_INLINE void RankBackends::drop() noexcept {
  try {
    if (is_users_own() && host_ != nullptr) host_->abort();
    if (on_device_ != nullptr) on_device_->abort();
  } catch (...) {  // it has failed anyway
  }
  host_.reset(), on_device_.reset(), store_.reset();
}

IKEBANA_INLINE bool RankBackends::stages(c10::Device device) const {
  return !device.is_cpu() && on_device_ == nullptr &&
         dynamic_cast<const c10d::ProcessGroupGloo*>(host_.get()) != nullptr;
}

IKEBANA_INLINE bool RankBackends::uses_nccl(c10::Device device) const {
  return device.is_cuda() && !is_users_own() && members_->device_backend != Backend::Gloo;
}

}  // namespace ikebana::detail
