#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/page.hpp>
#include <ikebana/memory/page_script.hpp>
#include <ikebana/memory/pickle.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE PageData::PageData(const MemoryRecord& record) : record_(record) {
  (void)labels_.number(no_label);  // has number 0, which the HTML's table of blocks does not show
}

IKEBANA_INLINE std::string PageData::json() {
  add_events();
  add_blocks();
  JsonWriter json({.in_html = true});
  json.object([&] {
    json.member("device", valid_utf8(record_.device));
    json.member("in_use", record_.in_use);
    json.member("dropped", record_.dropped);
    json.member("times", times_), json.member("spans", spans_), json.member("oom", refused_);
    add(json, "kinds", kinds_), add(json, "units", units_);
    add(json, "phases", phases_), add(json, "labels", labels_);
  });
  return std::move(json).text();
}

IKEBANA_INLINE void PageData::add_events() {
  std::int64_t at = 0;
  for (const MemoryEvent& event : record_.events) {
    times_.push_back(event.time_us);
    if (event.action == MemoryEvent::Action::OutOfMemory) {
      refused_.push_back({at, event.bytes});
    } else if (event.action == MemoryEvent::Action::Alloc) {
      made_[event.number] = spans_.size();
      spans_.push_back(span(event.bytes, at, event.kind, event.unit, *event.where));
    } else if (const auto made = made_.find(event.number); made != made_.end()) {
      spans_[made->second][2] = at;
    } else {  // the place of its allocation is not known any more
      spans_.push_back(span(event.bytes, -1, event.kind, event.unit, {}));
      spans_.back()[2] = at;
    }
    ++at;
  }
}

IKEBANA_INLINE void PageData::add_blocks() {
  for (const MemoryBlock& block : record_.blocks)
    if (!made_.contains(block.number))
      spans_.push_back(span(block.bytes, -1, block.kind, block.unit, *block.where));
  if (record_.before > 0)
    spans_.push_back(span(record_.before, -1, "allocated before the history", "", {}));
}

IKEBANA_INLINE PageData::Span PageData::span(std::int64_t bytes, std::int64_t first,
                                             const std::string& kind, const std::string& unit,
                                             const MemoryWhere& where) {
  std::string labels;
  for (const std::string& label : where.labels) labels += (labels.empty() ? "" : " < ") + label;
  auto number = [](Names& names, const std::string& name, const char* otherwise) {
    return static_cast<std::int64_t>(names.number(name.empty() ? otherwise : name));
  };
  return {bytes,
          first,
          -1,
          number(kinds_, kind, "other"),
          number(units_, unit, "(no unit's)"),
          number(phases_, where.phase, "(no phase)"),
          number(labels_, labels, no_label)};
}

IKEBANA_INLINE void PageData::add(JsonWriter& json, const char* name, const Names& names) {
  json.array(name, [&] {
    for (std::uint32_t i = 0; i < names.size(); ++i) json.string(valid_utf8(names[i]));
  });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void save_memory_page(const std::filesystem::path& path,
                                     const MemoryRecord& record) {
  detail::write_file(path, detail::page_begin + detail::PageData(record).json() + detail::page_end);
}

IKEBANA_INLINE void save_memory_page(const std::filesystem::path& path, MemoryHistory& history) {
  save_memory_page(path, history.record());
}

}  // namespace ikebana
