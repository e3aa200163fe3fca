#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/rank_backends.hpp>
#include <stdexcept>

namespace ikebana::detail {

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
  const Deadline deadline(members.timeout + std::chrono::milliseconds(200));  // ends after Gloo's
                                                                              // own limit
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
