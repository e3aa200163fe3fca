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

  bool is_begun() const { return !works_.empty(); }
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
  /// Returns when all has arrived and all was sent; of a device: when its stream will have. Throws
  /// what the backend throws.
  void wait() {
    for (const auto& work : works_) work->wait();
    works_.clear(), memory_.clear();
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::vector<at::Tensor> memory_;
};

}  // namespace ikebana::detail
