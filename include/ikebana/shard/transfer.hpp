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
    works_ = std::move(other.works_), memory_ = std::move(other.memory_);
    return *this;
  }

  bool is_empty() const { return works_.empty(); }
  void add(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    works_.push_back(std::move(work));
    memory_.push_back(std::move(memory));
  }
  /// One work for several tensors.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& memory) {
    if (work == nullptr) return;
    works_.push_back(std::move(work));
    memory_.insert(memory_.end(), memory.begin(), memory.end());
  }
  void wait() {
    for (const auto& work : works_) work->wait();
    works_.clear(), memory_.clear();
  }

 private:
  std::vector<at::Tensor> memory_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;  // destroyed first
};

/// Messages that were begun, or that another thread begins. It holds their tensors until they have
/// ended, or until this is destroyed, which gives them up. Move only.
class Transfer {
 public:
  Transfer() = default;
  Transfer(MessageWorks works) : works_(std::move(works)) {}
  Transfer(std::future<MessageWorks> later) : later_(std::move(later)) {}

  bool is_begun() const { return later_.valid() || !works_.is_empty(); }
  /// Returns when all has arrived and all was sent; of a device: when its stream will have. Throws
  /// what the backend throws, also when it begins in another thread.
  void wait() {
    if (later_.valid()) works_ = later_.get();
    works_.wait();
  }

 private:
  MessageWorks works_;
  std::future<MessageWorks> later_;
};

}  // namespace ikebana::detail
