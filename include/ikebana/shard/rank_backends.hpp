#pragma once
// The process groups of one trainer: they are made when its ranks meet, and dropped when one fails.
#include <ikebana/shard/messages.hpp>
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// Gloo among hosts, and NCCL beside it among devices; or one of the user's own.
class RankBackends {
 public:
  explicit RankBackends(std::shared_ptr<GroupMembers> members) : members_(std::move(members)) {}

  bool is_users_own() const { return members_->backend != nullptr; }
  bool are_there() const { return host_ != nullptr; }
  c10d::Backend& host() const { return *host_; }
  c10d::Backend& of(c10::Device device) const {
    return device.is_cpu() || on_device_ == nullptr ? *host_ : *on_device_;
  }
  /// Takes the user's own, which serves once.
  void take_users_own(bool has_failed) {
    if (has_failed)
      throw RankFailed(
          "the process group that the policy was given has failed; make another one, and a new "
          "trainer");
    host_ = members_->backend;
  }
  /// Connects with all ranks, which meet in this store within the time limit.
  void connect(const StorePtr& store, c10::Device device) {
    host_ = while_ranks_live(*members_->watch, [store, m = members_] {
      return make_gloo(store, m->rank, m->size, m->timeout, m->all_local);
    });
    if (device.is_cuda())
      on_device_ = make_nccl(store, members_->rank, members_->size, members_->timeout);
  }
  /// At once. Messages that are not given up keep the connection, and the others wait.
  void drop() noexcept {
    try {
      if (is_users_own() && host_ != nullptr) host_->abort();
      if (on_device_ != nullptr) on_device_->abort();
    } catch (...) {  // it has failed anyway
    }
    host_.reset(), on_device_.reset();
  }

 private:
  std::shared_ptr<GroupMembers> members_;
  c10::intrusive_ptr<c10d::Backend> host_, on_device_;
};

}  // namespace ikebana::detail
