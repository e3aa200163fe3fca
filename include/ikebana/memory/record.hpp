#pragma once
// Defines the records of a history of memory: places, blocks and events.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

/// The place in the program of an allocation. A text is empty if it is not known: the phase and the
/// unit are known in steps under Observe<Memory> with `by_phase` or `by_unit`.
struct MemoryWhere {
  std::string phase;                ///< `data`, `forward`, `backward`, `optimizer`
  std::string unit;                 ///< `block0`
  std::vector<std::string> labels;  ///< the labels of the thread's MemoryScopes, the innermost
                                    ///< first
  std::vector<std::string>
      stack;  ///< the functions, the innermost first; empty unless the stack was requested

  /// Returns a text such as `forward of block0, in epoch 3`, without the functions.
  std::string text() const;
};

/// One allocation of LibTorch's that is in use.
struct MemoryBlock {
  std::uint64_t address = 0;  ///< the address of its first byte
  std::int64_t bytes = 0;     ///< the bytes that LibTorch requested
  std::uint64_t number = 0;   ///< the same as MemoryEvent::number
  std::string kind;           ///< the same as MemoryEvent::kind
  std::string unit;  ///< the unit whose parameter or gradient it is; otherwise the unit in which it
                     ///< was made
  std::shared_ptr<const MemoryWhere> where;  ///< its place; never null, shared by equal ones
};

/// One allocation or free, or an allocation that did not fit.
struct MemoryEvent {
  /// The kinds of events.
  enum class Action {
    Alloc,       ///< an allocation
    Free,        ///< a free
    OutOfMemory  ///< an allocation that did not fit
  };
  Action action = Action::Alloc;  ///< what happened
  std::uint64_t address = 0;      ///< 0 for an allocation that did not fit
  std::int64_t bytes = 0;         ///< the bytes that were requested
  std::int64_t time_us = 0;       ///< the time since 1970
  std::int64_t left =
      0;  ///< for an allocation that did not fit: the bytes that the limit left; 0 without a limit
  /// `parameter` and `gradient`, if a step under `by_unit` has said so; `temporary` if it was freed
  /// in the phase in which it was allocated; otherwise what its phase leaves: `batch`,
  /// `activation`, `gradient`, `optimizer state` with averages. `other` outside of steps.
  std::string kind;
  std::string unit;  ///< the same as MemoryBlock::unit
  std::uint64_t number =
      0;  ///< equal for an allocation and its free; 0: allocated before the history
  /// The place of the allocation, or of the free; never null.
  std::shared_ptr<const MemoryWhere> where;
};

/// A copy of what a history holds.
struct MemoryRecord {
  std::string device = "cpu";       ///< the text of c10::Device::str
  std::int64_t in_use = 0;          ///< bytes that the whole process used when it was copied
  std::int64_t before = 0;          ///< bytes of these that were allocated before the history began
  std::vector<MemoryEvent> events;  ///< the last ones, in the order in which they happened
  std::vector<MemoryBlock> blocks;  ///< the blocks in use and the ones allocated since, sorted by
                                    ///< address
  std::uint64_t dropped = 0;        ///< events that the history has dropped because of its bound
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/record.ipp>
#endif
