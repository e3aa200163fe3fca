#pragma once
// Memory on its way between ranks.
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <vector>

namespace ikebana::detail {

/// Sends and receptions that were begun, and their tensors, which are freed after them. Move only.
class MessageWorks {
 public:
  MessageWorks() = default;
  MessageWorks(MessageWorks&&) = default;
  MessageWorks& operator=(MessageWorks&& other) noexcept {
    received_ = std::move(other.received_), sent_ = std::move(other.sent_);
    memory_ = std::move(other.memory_), sent_memory_ = std::move(other.sent_memory_);
    return *this;
  }

  bool is_empty() const { return received_.empty() && sent_.empty(); }
  void add_reception(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    received_.push_back(std::move(work));
    memory_.push_back(std::move(memory));
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
    memory_.insert(memory_.end(), memory.begin(), memory.end());
  }
  void wait_received() {
    for (const auto& work : received_) work->wait();
    received_.clear(), memory_.clear();
  }
  void wait() {
    wait_received();
    for (const auto& work : sent_) work->wait();
    sent_.clear(), sent_memory_.clear();
  }

 private:
  std::vector<at::Tensor> memory_, sent_memory_;  // of what is received, and of what is sent
  std::vector<c10::intrusive_ptr<c10d::Work>> received_, sent_;  // destroyed first
};

/// Messages that were begun, or that another thread begins. It holds their tensors until they have
/// ended, or until this is destroyed, which gives them up. Move only.
class Transfer {
 public:
  Transfer() = default;
  Transfer(MessageWorks works) : works_(std::move(works)) {}
  Transfer(std::future<MessageWorks> later) : later_(std::move(later)) {}

  bool is_begun() const { return later_.valid() || !works_.is_empty(); }
  /// Returns when all has arrived; of a device: when its stream will have. Throws what the backend
  /// throws, also when it begins in another thread. What is sent may still be on its way: Gloo does
  /// not end the wait for a message of which a part was written when its rank ends, so that this
  /// wait would last until the time limit.
  void wait_received() {
    begin();
    works_.wait_received();
  }
  /// Returns when all was sent, too.
  void wait() {
    begin();
    works_.wait();
  }

 private:
  void begin() {
    if (later_.valid()) works_ = later_.get();
  }

  MessageWorks works_;
  std::future<MessageWorks> later_;
};

}  // namespace ikebana::detail
