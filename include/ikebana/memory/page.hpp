#pragma once
// An HTML page of a history of memory.
#include <array>
#include <ikebana/memory/history.hpp>
#include <ikebana/memory/page_script.hpp>
#include <ikebana/memory/pickle.hpp>
#include <ikebana/memory/write_file.hpp>

namespace ikebana {

namespace detail {

/// The data of such a page, as JSON. Of each block a span: its bytes, the indices of the events
/// that made and freed it (-1: before the first, or not at all), and indices in the lists of
/// kinds, units, phases and labels.
class PageData {
 public:
  explicit PageData(const MemoryRecord& record) : record_(record) {
    (void)labels_.number(no_label);  // the first one: a table of blocks leaves it out
  }

  std::string json() {
    add_events();
    add_blocks();
    std::string text = "{\"device\": " + quoted(record_.device) +
                       ", \"in_use\": " + std::to_string(record_.in_use) +
                       ", \"dropped\": " + std::to_string(record_.dropped);
    add(text, "times", times_), add(text, "spans", spans_), add(text, "oom", refused_);
    add(text, "kinds", kinds_), add(text, "units", units_);
    add(text, "phases", phases_), add(text, "labels", labels_);
    return text + "}";
  }

 private:
  using Names = Interned<std::string>;
  using Span = std::array<std::int64_t, 7>;

  void add_events() {
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
      } else {  // where it was made is not known any more
        spans_.push_back(span(event.bytes, -1, event.kind, event.unit, {}));
        spans_.back()[2] = at;
      }
      ++at;
    }
  }
  void add_blocks() {
    for (const MemoryBlock& block : record_.blocks)
      if (!made_.contains(block.number))
        spans_.push_back(span(block.bytes, -1, block.kind, block.unit, *block.where));
    if (record_.before > 0)
      spans_.push_back(span(record_.before, -1, "allocated before the history", "", {}));
  }
  Span span(std::int64_t bytes, std::int64_t first, const std::string& kind,
            const std::string& unit, const MemoryWhere& where) {
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

  /// As JSON that may stand in HTML.
  static std::string quoted(const std::string& text) {
    std::string json = Json::quoted(valid_utf8(text));
    for (std::size_t at; (at = json.find('<')) != json.npos;) json.replace(at, 1, "\\u003c");
    return json;
  }
  static std::string json_of(std::int64_t number) { return std::to_string(number); }
  template <std::size_t N>
  static std::string json_of(const std::array<std::int64_t, N>& numbers) {
    std::string text = "[";
    for (const std::int64_t number : numbers) text += std::to_string(number) + ",";
    return text.back() = ']', text;
  }
  template <class T>
  static void add(std::string& text, const char* name, const std::vector<T>& values) {
    text += std::string(", \"") + name + "\": [";
    for (const T& value : values) text += (&value == values.data() ? "" : ",") + json_of(value);
    text += ']';
  }
  static void add(std::string& text, const char* name, const Names& names) {
    text += std::string(", \"") + name + "\": [";
    for (std::uint32_t i = 0; i < names.size(); ++i)
      text += (i == 0 ? "" : ", ") + quoted(names[i]);
    text += ']';
  }

  static constexpr const char* no_label = "(no label)";
  const MemoryRecord& record_;
  Names kinds_, units_, phases_, labels_;
  std::vector<std::int64_t> times_;
  std::vector<Span> spans_;
  std::vector<std::array<std::int64_t, 2>> refused_;
  std::unordered_map<std::uint64_t, std::size_t> made_;  // the span of an allocation, by its number
};

}  // namespace detail

/// Writes what a history holds as one HTML page, which needs no network: memory in use over time,
/// by kind, unit, phase or label, and at any instant the largest blocks. Replaces `path`. Throws
/// FileFailed, also where `path` is no regular file, such as a device.
inline void save_memory_page(const std::filesystem::path& path, const MemoryRecord& record) {
  detail::write_file(path, detail::page_begin + detail::PageData(record).json() + detail::page_end);
}
inline void save_memory_page(const std::filesystem::path& path, MemoryHistory& history) {
  save_memory_page(path, history.record());
}

}  // namespace ikebana
