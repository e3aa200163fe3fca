#pragma once
// Counts what a rank of a test sends.
#include "groups.hpp"

namespace test::ranks {

/// A process group of a user's own, which counts the bytes that are sent, in all and to each rank,
/// and lists the tags of messages in `log`.
class Counting : public c10d::Backend {
 public:
  explicit Counting(c10::intrusive_ptr<c10d::Backend> inner,
                    std::vector<std::string>* log = nullptr)
      : Backend(inner->getRank(), inner->getSize()),
        bytes_to(static_cast<std::size_t>(inner->getSize())),
        inner_(std::move(inner)),
        log_(log) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& list, int to, int tag) override {
    for (const at::Tensor& t : list) {
      bytes += static_cast<std::int64_t>(t.nbytes());
      bytes_to[static_cast<std::size_t>(to)] += static_cast<std::int64_t>(t.nbytes());
    }
    if (log_ != nullptr) log_->push_back("send " + std::to_string(tag));
    return inner_->send(list, to, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& list, int from, int tag) override {
    return inner_->recv(list, from, tag);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& list,
                                           const c10d::AllreduceOptions& options) override {
    return inner_->allreduce(list, options);
  }
  std::int64_t bytes = 0;
  std::vector<std::int64_t> bytes_to;  // the bytes, by rank

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::vector<std::string>* log_;
};

}  // namespace test::ranks
