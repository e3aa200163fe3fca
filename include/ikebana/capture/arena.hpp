#pragma once
// The memory in which replays compute: one block, whose parts are used by several tensors one after
// the other.
#include <ikebana/capture/recording.hpp>
#include <memory>

namespace ikebana::detail {

/// Where each memory of a recording lies in an arena.
struct ArenaPlan {
  /// Memory that code may free by its address alone has this many bytes before it.
  static constexpr std::size_t header_bytes = 64;
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  std::vector<std::size_t> places;  ///< in bytes from the arena's beginning, or `nowhere`
  std::size_t bytes = 0;            ///< the size of the arena
};

/// Plans the arena of a recording: memory that is needed at the same time lies apart. The largest
/// is placed first, each at the lowest address that is free while it is needed. Memory for which
/// `is_placed` is false has no place.
ArenaPlan plan_arena(const std::vector<RecordedMemory>& memory, const std::vector<bool>& is_placed);

/// Places memory in the arena of a plan, where that needs its own no more. What has no room there
/// has no place.
ArenaPlan plan_within(const ArenaPlan& plan, const std::vector<RecordedMemory>& memory,
                      const std::vector<bool>& is_placed);

/// A block of the CPU's memory, which the tapes of one trainer share: a tape is replayed from its
/// first operator on, and expects no content.
class Arena {
 public:
  /// Makes sure that there are `bytes` at least. What was in it is lost. Throws if the memory
  /// cannot be allocated; the arena is empty then.
  void reserve(std::size_t bytes);
  void release() noexcept { block_.clear(), bytes_ = 0; }
  char* data() const { return static_cast<char*>(block_.get()); }
  std::size_t bytes() const { return bytes_; }

 private:
  c10::DataPtr block_;
  std::size_t bytes_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/arena.ipp>
#endif
