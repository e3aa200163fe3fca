#pragma once
// Snapshots of memory in PyTorch's format.
#include <ikebana/memory/history.hpp>
#include <ikebana/memory/pickle.hpp>
#include <ikebana/memory/write_file.hpp>

namespace ikebana {

namespace detail {

/// Writes a record as `torch.cuda.memory._snapshot()` returns one, with the names, the order and
/// the types of its fields. On the CPU each block is a segment, since the heap has none.
class Snapshot {
 public:
  explicit Snapshot(const MemoryRecord& record) : record_(record) {}

  std::string bytes() {
    p_.begin_dict();
    p_.text("segments"), segments();
    p_.text("device_traces"), p_.begin_list(), events(), p_.end_list();
    p_.text("allocator_settings"), settings();
    p_.text("external_annotations"), p_.begin_list(), p_.end_list();
    p_.end_dict();
    return p_.finish();
  }

 private:
  void item(const char* name, std::int64_t value) { p_.text(name), p_.integer(value); }
  void item(const char* name, const std::string& value) { p_.text(name), p_.text(value); }

  void segments() {
    p_.begin_list();
    const MemoryWhere before{"", "", {"allocated before the history"}, {}};
    if (record_.before > 0)
      segment(first_address, record_.before, [&] { frame_list(before, "", ""); });
    for (const MemoryBlock& block : record_.blocks)
      segment(block.address, block.bytes, [&] { frames(block.where, block.kind, block.unit); });
    p_.end_list();
  }
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

  void events() {
    p_.begin_list();
    for (const MemoryEvent& event : record_.events) switch (event.action) {
        case MemoryEvent::Action::Alloc:
          entry(event, "alloc");
          break;
        case MemoryEvent::Action::OutOfMemory:
          entry(event, "oom");
          break;
        case MemoryEvent::Action::Free:
          entry(event, "free_requested"), entry(event, "free_completed");
      }
    p_.end_list();
  }
  void entry(const MemoryEvent& event, const char* action) {
    p_.begin_dict();
    item("action", action);
    if (event.action == MemoryEvent::Action::OutOfMemory) item("device_free", event.left);
    else p_.text("addr"), p_.address(event.address);
    item("size", event.bytes), item("stream", 0), item("time_us", event.time_us);
    item("compile_context", "N/A"), item("user_metadata", event.where->text());
    p_.text("frames"), frames(event.where, event.kind, event.unit);
    p_.end_dict();
  }

  /// The innermost first: what it is, functions, labels, then the phase.
  void frames(const std::shared_ptr<const MemoryWhere>& where, const std::string& kind,
              const std::string& unit) {
    const auto [at, is_new] = frames_.try_emplace({where.get(), kind, unit}, 0);
    if (!is_new) return p_.get(at->second);
    frame_list(*where, kind, unit);
    at->second = p_.remember();
  }
  void frame_list(const MemoryWhere& where, const std::string& kind, const std::string& unit) {
    p_.begin_list();
    if (!kind.empty()) frame(unit.empty() ? kind : kind + " of " + unit, "kind");
    for (const std::string& function : where.stack) {
      const std::size_t split = function.rfind(" (");
      frame(function.substr(0, split), function.substr(split + 2, function.size() - split - 3));
    }
    if (!where.unit.empty()) frame(where.unit, "unit");
    if (!where.phase.empty()) frame(where.phase, "phase");
    for (const std::string& label : where.labels) frame(label, "label");
    p_.end_list();
  }
  void frame(const std::string& name, const std::string& file) {
    p_.begin_dict();
    item("name", name), item("filename", file), item("line", 0);
    p_.end_dict();
  }

  void settings() {
    p_.begin_dict();
    item("PYTORCH_CUDA_ALLOC_CONF", ""), item("max_split_size", -1);
    p_.text("garbage_collection_threshold"), p_.real(0);
    p_.text("expandable_segments"), p_.boolean(false);
    item("pinned_num_register_threads", 1);
    for (const char* name : {"release_lock_on_cudamalloc", "pinned_use_cuda_host_register"})
      p_.text(name), p_.boolean(false);
    p_.text("roundup_power2_divisions"), p_.begin_dict(), p_.end_dict();
    p_.end_dict();
  }

  static constexpr std::uint64_t first_address = 4096;  // of no block of the heap
  const MemoryRecord& record_;
  Pickle p_;
  std::map<std::tuple<const MemoryWhere*, std::string, std::string>, std::uint32_t> frames_;
};

}  // namespace detail

/// Writes what a history holds as PyTorch does: `python -m torch.cuda._memory_viz stats FILE` and
/// `trace FILE` read it, and so does pytorch.org/memory_viz. Kinds, units, phases and labels are
/// frames, the innermost first. What was allocated before the history is one block. Replaces
/// `path`. Throws FileFailed.
inline void save_memory_snapshot(const std::filesystem::path& path, const MemoryRecord& record) {
  detail::write_file(path, detail::Snapshot(record).bytes());
}
inline void save_memory_snapshot(const std::filesystem::path& path, MemoryHistory& history) {
  save_memory_snapshot(path, history.record());
}

}  // namespace ikebana
