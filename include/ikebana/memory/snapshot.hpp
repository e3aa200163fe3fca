#pragma once
// Writes snapshots of memory in PyTorch's format.
#include <filesystem>
#include <ikebana/memory/history.hpp>
#include <ikebana/memory/pickle.hpp>

namespace ikebana {

namespace detail {

/// Writes a record as `torch.cuda.memory._snapshot()` returns one, with the names, the order and
/// the types of its fields. On the CPU each block is a segment, since the heap has no segments.
class Snapshot {
 public:
  explicit Snapshot(const MemoryRecord& record) : record_(record) {}

  std::string bytes();

 private:
  void item(const char* name, std::int64_t value) { p_.text(name), p_.integer(value); }
  void item(const char* name, const std::string& value) { p_.text(name), p_.text(value); }

  void segments();
  template <class Frames>
  void segment(std::uint64_t address, std::int64_t bytes, const Frames& frames) {
    p_.begin_dict();
    item("device", 0), p_.text("address"), p_.address(address);
    for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"})
      item(size, bytes);
    item("stream", 0), item("segment_type", bytes > 1 << 20 ? "large" : "small");
    p_.text("segment_pool_id"), p_.pair(0, 0);
    p_.text("is_expandable"), p_.boolean(false);
    p_.text("frames"), p_.begin_list(), p_.end_list();
    p_.text("blocks"), p_.begin_list(), p_.begin_dict();
    p_.text("address"), p_.address(address);
    item("size", bytes), item("requested_size", bytes), item("state", "active_allocated");
    p_.text("frames"), frames();
    p_.end_dict(), p_.end_list(), p_.end_dict();
  }

  void events();
  void entry(const MemoryEvent& event, const char* action);

  /// Writes frames, the innermost first: the kind, functions, the unit, the phase, then labels.
  void frames(const std::shared_ptr<const MemoryWhere>& where, const std::string& kind,
              const std::string& unit);
  void frame_list(const MemoryWhere& where, const std::string& kind, const std::string& unit);
  void frame(const std::string& name, const std::string& file);

  void settings();

  static constexpr std::uint64_t first_address = 4096;  // no block of the heap has it
  const MemoryRecord& record_;
  Pickle p_;
  std::map<std::tuple<const MemoryWhere*, std::string, std::string>, std::uint32_t> frames_;
};

}  // namespace detail

/// Writes the records of a history in PyTorch's format. `python -m torch.cuda._memory_viz stats
/// FILE` and `trace FILE` read it, and so does pytorch.org/memory_viz. Kinds, units, phases and
/// labels are frames, the innermost first. Memory that was allocated before the history is one
/// block. Replaces `path`. Throws FileFailed.
void save_memory_snapshot(const std::filesystem::path& path, const MemoryRecord& record);
void save_memory_snapshot(const std::filesystem::path& path, MemoryHistory& history);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/snapshot.ipp>
#endif
