#pragma once
#include <cstddef>
#include <cstring>
#include <ikebana/bridge/memory_place.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/interned.hpp>
#include <ikebana/posix/stack_trace.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string present_place() {
  std::string text;
  auto add = [&](std::string_view part) { text.append(part).append(1, '\0'); };
  const auto place = bridge::place_source ? bridge::place_source->place() : bridge::MemoryPlace();
  add(place.phase), add(place.unit);
  for (const auto* label = bridge::MemoryLabel::innermost(); label; label = label->outer())
    if (!label->text().empty()) add(label->text());
  return text;
}

IKEBANA_INLINE MemoryWhere where_of(const std::string& place) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < place.size(); at = place.find('\0', at) + 1)
    parts.push_back(place.substr(at, place.find('\0', at) - at));
  return {parts[0], parts[1], {parts.begin() + 2, parts.end()}, {}};
}

IKEBANA_INLINE std::vector<std::string> names_of(const std::vector<void*>& stack) {
  std::vector<std::string> names;
  for (const void* address : without_own_frames(stack)) {
    const StackFrame frame = frame_at(address);
    names.push_back(frame.name + " (" + frame.file + ")");
  }
  return names;
}

IKEBANA_INLINE const char* kind_of(std::string_view phase, const char* freed_in) {
  if (phase.empty()) return "other";
  if (freed_in != nullptr && freed_in == phase) return "temporary";
  if (phase == "data") return "batch";
  if (phase == "forward") return "activation";
  return phase == "backward" ? "gradient" : "optimizer state";
}

}  // namespace ikebana::detail
