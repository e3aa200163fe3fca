#pragma once
// Writes a history of memory as an HTML page.
#include <array>
#include <filesystem>
#include <ikebana/memory/history.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace ikebana {

namespace detail {

/// The data of such a page, as JSON that is safe within HTML. Each block has a span: its bytes, the
/// indices of the events that made and freed it (-1: before the first event, or not at all), and
/// indices into the lists of kinds, units, phases and labels.
class PageData {
 public:
  explicit PageData(const MemoryRecord& record);

  std::string json();

 private:
  using Names = Interned<std::string>;
  using Span = std::array<std::int64_t, 7>;

  void add_events();
  void add_blocks();
  Span span(std::int64_t bytes, std::int64_t first, const std::string& kind,
            const std::string& unit, const MemoryWhere& where);

  static void add(JsonWriter& json, const char* name, const Names& names);

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
/// FileFailed, also if `path` is not a regular file, such as a device.
void save_memory_page(const std::filesystem::path& path, const MemoryRecord& record);
void save_memory_page(const std::filesystem::path& path, MemoryHistory& history);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/page.ipp>
#endif
