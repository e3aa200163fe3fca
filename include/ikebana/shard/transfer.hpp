#pragma once
// Memory on its way between ranks.
#include <ikebana/detail/torch_c10d.hpp>
#include <vector>

namespace ikebana::detail {

/// Sends and receptions that were begun. They hold their tensors until they have ended, or until
/// this is destroyed, which gives them up. Move only.
class Transfer {
 public:
  Transfer() = default;
  Transfer(Transfer&&) = default;
  Transfer& operator=(Transfer&&) = default;

  bool is_begun() const { return !received_.empty() || !sent_.empty(); }
  void add_reception(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    received_.push_back(std::move(work));
    received_memory_.push_back(std::move(memory));
  }
  void add_sending(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    sent_.push_back(std::move(work));
    sent_memory_.push_back(std::move(memory));
  }
  /// One work for several tensors, both sent and received.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& memory) {
    if (work == nullptr) return;
    received_.push_back(std::move(work));
    received_memory_.insert(received_memory_.end(), memory.begin(), memory.end());
  }
  /// Returns when all has arrived; of a device: when its stream will have. Throws what the backend
  /// throws. What is sent may still be on its way: Gloo tells the wait for a message of which a
  /// part was written nothing when its rank ends, so that this wait lasts until the time limit.
  void wait_received() {
    for (const auto& work : received_) work->wait();
    received_.clear(), received_memory_.clear();
  }
  /// Returns when all was sent, too.
  void wait() {
    wait_received();
    for (const auto& work : sent_) work->wait();
    sent_.clear(), sent_memory_.clear();
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> received_, sent_;
  std::vector<at::Tensor> received_memory_, sent_memory_;
};

}  // namespace ikebana::detail
