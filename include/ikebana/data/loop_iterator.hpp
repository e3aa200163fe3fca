#pragma once
// Defines the iterator of a range-based `for` over a loader.
#include <cstddef>
#include <cstdint>
#include <ikebana/detail/batch_wait.hpp>
#include <iterator>
#include <optional>

namespace ikebana::detail {

/// Takes the batches of a loop from the implementation of a loader, which begins loops and returns
/// the next batch of one. Holds the batch, which is destroyed when it is incremented.
template <class Core>
class LoopIterator {
 public:
  using value_type = typename Core::Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  LoopIterator() = default;
  explicit LoopIterator(Core& core) : core_(&core), loop_(core.begin_loop()) { ++*this; }
  value_type& operator*() const { return *batch_; }
  LoopIterator& operator++() {
    const BatchWait wait;
    batch_.reset();  // frees its memory before the next batch is made
    batch_ = core_->next(loop_);
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

 private:
  Core* core_ = nullptr;
  std::uint64_t loop_ = 0;
  mutable std::optional<value_type> batch_;
};

}  // namespace ikebana::detail
