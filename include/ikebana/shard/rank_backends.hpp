#pragma once
// The process groups of one trainer: they are made when its ranks meet, and dropped when one fails.
#include <ikebana/shard/await_ranks.hpp>
#include <ikebana/shard/messages.hpp>
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// Gloo among hosts, and NCCL beside it among CUDA devices; or one of the user's own.
class RankBackends {
 public:
  explicit RankBackends(std::shared_ptr<GroupMembers> members) : members_(std::move(members)) {}

  bool is_users_own() const { return members_->backend != nullptr; }
  bool are_there() const { return host_ != nullptr; }
  c10d::Backend& host() const { return *host_; }
  c10d::Backend& of(c10::Device device) const {
    return device.is_cpu() || on_device_ == nullptr ? *host_ : *on_device_;
  }
  /// How tensors of the model travel, as ranks compare it.
  std::string transport(c10::Device device) const {
    const char* by = is_users_own()          ? "a backend of its own"
                     : on_device_ != nullptr ? "NCCL"
                                             : "Gloo";
    return c10::str(device.type(), " by ", by);
  }
  /// Puts host memory in place of tensors of this device where Gloo, which has no other, sends
  /// them.
  StagedTensors stage(TensorsOfRanks& to, TensorsOfRanks& from, c10::Device device) const {
    StagedTensors staged;
    if (stages(device)) staged.replace(to, from), members_->staged_bytes += staged.bytes();
    return staged;
  }
  /// The same of a tensor that is summed over ranks in place.
  StagedTensors stage(at::Tensor& t) const {
    StagedTensors staged;
    if (stages(t.device())) staged.replace(t), members_->staged_bytes += staged.bytes();
    return staged;
  }
  /// What is broadcast of `t`: contiguous, and in host memory where Gloo sends it. Itself, a copy,
  /// or memory for one that is received first.
  at::Tensor to_broadcast(const at::Tensor& t, bool is_received) const {
    if (!stages(t.device())) return t.detach().contiguous();
    members_->staged_bytes += static_cast<std::int64_t>(t.nbytes());
    if (is_received) return at::empty(t.sizes(), t.options().device(at::kCPU));
    return t.detach().to(at::kCPU).contiguous();
  }
  /// Throws BadValue where the options ask for what cannot be on this device. One rank needs no
  /// backend, unless it asks for one.
  void check(c10::Device device) const {
    if (members_->device_backend == Backend::NCCL && !device.is_cuda())
      throw BadValue("ProcessGroup: backend is NCCL, and the model is on " + device.str() +
                     ". NCCL is of CUDA devices alone: move the model to one, as by the policy On, "
                     "or leave `backend` out.");
    if (uses_nccl(device) && (members_->size > 1 || members_->device_backend)) check_nccl();
  }
  /// Takes the user's own, which serves once.
  void take_users_own(bool has_failed) {
    if (has_failed)
      throw RankFailed(
          "the process group that the policy was given has failed; make another one, and a new "
          "trainer");
    host_ = members_->backend;
  }
  /// By one for the tensors of every device. The former ones are never destroyed: in a copy of the
  /// process their threads are missing.
  void replace(c10::intrusive_ptr<c10d::Backend> by) {
    (void)host_.release(), (void)on_device_.release();
    host_ = std::move(by);
  }
  /// Connects with all ranks, which meet in this store within the time limit.
  void connect(StorePtr store) {
    store_ = std::move(store);
    host_ = while_ranks_live(*members_, [store = store_, m = members_] {
      return make_gloo(store, m->rank, m->size, m->timeout, m->all_local);
    });
  }
  /// After it: for the tensors of this device. Throws BadValue as `check` does.
  void connect_devices(c10::Device device) {
    if (is_users_own()) return;
    check(device);
    if (uses_nccl(device))
      on_device_ = make_nccl(store_, members_->rank, members_->size, members_->timeout);
  }
  /// At once. Messages that are not given up keep the connection, and the others wait.
  void drop() noexcept {
    try {
      if (is_users_own() && host_ != nullptr) host_->abort();
      if (on_device_ != nullptr) on_device_->abort();
    } catch (...) {  // it has failed anyway
    }
    host_.reset(), on_device_.reset(), store_.reset();
  }

 private:
  /// False before the ranks are connected.
  bool stages(c10::Device device) const {
    return !device.is_cpu() && on_device_ == nullptr &&
           dynamic_cast<const c10d::ProcessGroupGloo*>(host_.get()) != nullptr;
  }
  bool uses_nccl(c10::Device device) const {
    return device.is_cuda() && !is_users_own() && members_->device_backend != Backend::Gloo;
  }

  std::shared_ptr<GroupMembers> members_;
  StorePtr store_;  // in which they meet
  c10::intrusive_ptr<c10d::Backend> host_, on_device_;
};

}  // namespace ikebana::detail
