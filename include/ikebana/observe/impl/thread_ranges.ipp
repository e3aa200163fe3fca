#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/thread_ranges.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void ThreadRanges::open() {
  const std::lock_guard lock(mutex_);
  ranges_.clear();
  is_open_ = true;
}

IKEBANA_INLINE void ThreadRanges::add(ThreadRange range) {
  const std::lock_guard lock(mutex_);
  if (is_open_ && ranges_.size() < most) ranges_.push_back(std::move(range));
}

IKEBANA_INLINE std::vector<ThreadRange> ThreadRanges::close() {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  return std::exchange(ranges_, {});
}

}  // namespace ikebana::detail
