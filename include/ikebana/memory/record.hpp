#pragma once
// What a history of memory keeps of each allocation.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

/// Where the program was when it allocated. Texts are empty where it is not known: the phase and
/// the unit in steps under Observe<Memory> with `by_phase` or `by_unit`.
struct MemoryWhere {
  std::string phase;                ///< `data`, `forward`, `backward`, `optimizer`
  std::string unit;                 ///< `block0`
  std::vector<std::string> labels;  ///< of the MemoryScopes of the thread, the innermost first
  std::vector<std::string> stack;   ///< of functions, the innermost first; where it was asked for

  /// `forward of block0, in epoch 3`; without the functions.
  std::string text() const;
};

/// One allocation of LibTorch's that is in use.
struct MemoryBlock {
  std::uint64_t address = 0;  ///< of its first byte
  std::int64_t bytes = 0;     ///< as LibTorch asked for them
  std::uint64_t number = 0;   ///< as MemoryEvent::number
  std::string kind;           ///< as MemoryEvent::kind
  std::string unit;           ///< whose parameter or gradient it is; otherwise where it was made
  std::shared_ptr<const MemoryWhere> where;  ///< it was made; never null, shared by equal ones
};

/// One allocation or free, or an allocation that did not fit.
struct MemoryEvent {
  /// What happened.
  enum class Action {
    Alloc,       ///< an allocation
    Free,        ///< a free
    OutOfMemory  ///< an allocation that did not fit
  };
  Action action = Action::Alloc;  ///< what happened
  std::uint64_t address = 0;      ///< 0 of one that did not fit
  std::int64_t bytes = 0;         ///< that were asked for
  std::int64_t time_us = 0;       ///< since 1970
  std::int64_t left = 0;  ///< of one that did not fit: bytes that the limit left; 0 without one
  /// `parameter` and `gradient`, which a step under `by_unit` tells; `temporary`, freed in the
  /// phase in which it was allocated; otherwise what its phase leaves: `batch`, `activation`,
  /// `gradient`, `optimizer state`, with averages. Outside of steps `other`.
  std::string kind;
  std::string unit;          ///< as MemoryBlock::unit
  std::uint64_t number = 0;  ///< the same of an allocation and its free; 0: allocated before
  /// Of an allocation where it was made, of a free where it was freed; never null.
  std::shared_ptr<const MemoryWhere> where;
};

/// What a history holds, copied out of it.
struct MemoryRecord {
  std::string device = "cpu";  ///< as c10::Device::str has it
  std::int64_t in_use = 0;     ///< bytes when it was copied, all that the process uses
  std::int64_t before = 0;     ///< of these, bytes that were allocated before the history began
  std::vector<MemoryEvent> events;  ///< the last ones, in the order in which they happened
  std::vector<MemoryBlock> blocks;  ///< in use, allocated since, by address
  std::uint64_t dropped = 0;        ///< events that the bound of the history has dropped
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/record.ipp>
#endif
