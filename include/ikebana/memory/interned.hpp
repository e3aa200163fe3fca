#pragma once
// Places and stack traces of allocations, each stored once.
#include <ikebana/bridge/memory_place.hpp>
#include <ikebana/memory/record.hpp>
#include <ikebana/posix/stack_trace.hpp>
#include <map>

namespace ikebana::detail {

/// Numbers for values, from 0 in the order in which they came.
template <class Value>
class Interned {
 public:
  std::uint32_t number(const Value& value) {
    const auto [at, is_new] =
        numbers_.try_emplace(value, static_cast<std::uint32_t>(values_.size()));
    if (is_new) values_.push_back(&at->first);
    return at->second;
  }
  const Value& operator[](std::uint32_t number) const { return *values_[number]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::map<Value, std::uint32_t> numbers_;
  std::vector<const Value*> values_;  // a map does not move its keys
};

/// The place of the present thread as one text: the phase, the unit and the labels, each followed
/// by a character that no name has.
inline std::string present_place() {
  std::string text;
  auto add = [&](std::string_view part) { text.append(part).append(1, '\0'); };
  const auto place = bridge::place_source ? bridge::place_source->place() : bridge::MemoryPlace();
  add(place.phase), add(place.unit);
  for (const auto* label = bridge::MemoryLabel::innermost(); label; label = label->outer())
    if (!label->text().empty()) add(label->text());
  return text;
}
inline MemoryWhere where_of(const std::string& place) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < place.size(); at = place.find('\0', at) + 1)
    parts.push_back(place.substr(at, place.find('\0', at) - at));
  return {parts[0], parts[1], {parts.begin() + 2, parts.end()}, {}};
}
inline std::vector<std::string> names_of(const std::vector<void*>& stack) {
  std::vector<std::string> names;
  for (const void* address : without_own_frames(stack)) {
    const StackFrame frame = frame_at(address);
    names.push_back(frame.name + " (" + frame.file + ")");
  }
  return names;
}

/// What an allocation is, by the phase in which it was made and that in which it was freed; null:
/// it is in use.
inline const char* kind_of(std::string_view phase, const char* freed_in) {
  if (phase.empty()) return "other";
  if (freed_in != nullptr && freed_in == phase) return "temporary";
  if (phase == "data") return "batch";
  if (phase == "forward") return "activation";
  return phase == "backward" ? "gradient" : "optimizer state";
}

}  // namespace ikebana::detail
