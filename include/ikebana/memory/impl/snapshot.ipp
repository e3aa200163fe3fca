#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/snapshot.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string Snapshot::bytes() {
  p_.begin_dict();
  p_.text("segments"), segments();
  p_.text("device_traces"), p_.begin_list(), events(), p_.end_list();
  p_.text("allocator_settings"), settings();
  p_.text("external_annotations"), p_.begin_list(), p_.end_list();
  p_.end_dict();
  return p_.finish();
}

IKEBANA_INLINE void Snapshot::segments() {
  p_.begin_list();
  const MemoryWhere before{"", "", {"allocated before the history"}, {}};
  if (record_.before > 0)
    segment(first_address, record_.before, [&] { frame_list(before, "", ""); });
  for (const MemoryBlock& block : record_.blocks)
    segment(block.address, block.bytes, [&] { frames(block.where, block.kind, block.unit); });
  p_.end_list();
}

IKEBANA_INLINE void Snapshot::events() {
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

IKEBANA_INLINE void Snapshot::entry(const MemoryEvent& event, const char* action) {
  p_.begin_dict();
  item("action", action);
  if (event.action == MemoryEvent::Action::OutOfMemory) item("device_free", event.left);
  else p_.text("addr"), p_.address(event.address);
  item("size", event.bytes), item("stream", 0), item("time_us", event.time_us);
  item("compile_context", "N/A"), item("user_metadata", event.where->text());
  p_.text("frames"), frames(event.where, event.kind, event.unit);
  p_.end_dict();
}

IKEBANA_INLINE void Snapshot::frames(const std::shared_ptr<const MemoryWhere>& where,
                                     const std::string& kind, const std::string& unit) {
  const auto [at, is_new] = frames_.try_emplace({where.get(), kind, unit}, 0);
  if (!is_new) return p_.get(at->second);
  frame_list(*where, kind, unit);
  at->second = p_.remember();
}

IKEBANA_INLINE void Snapshot::frame_list(const MemoryWhere& where, const std::string& kind,
                                         const std::string& unit) {
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

IKEBANA_INLINE void Snapshot::frame(const std::string& name, const std::string& file) {
  p_.begin_dict();
  item("name", name), item("filename", file), item("line", 0);
  p_.end_dict();
}

IKEBANA_INLINE void Snapshot::settings() {
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

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void save_memory_snapshot(const std::filesystem::path& path,
                                         const MemoryRecord& record) {
  detail::write_file(path, detail::Snapshot(record).bytes());
}

IKEBANA_INLINE void save_memory_snapshot(const std::filesystem::path& path,
                                         MemoryHistory& history) {
  save_memory_snapshot(path, history.record());
}

}  // namespace ikebana
