#pragma once
// Places and stack traces of allocations, each stored once.
#include <ikebana/memory/record.hpp>
#include <map>
#include <string_view>

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
std::string present_place();
MemoryWhere where_of(const std::string& place);
std::vector<std::string> names_of(const std::vector<void*>& stack);

/// What an allocation is, by the phase in which it was made and that in which it was freed; null:
/// it is in use.
const char* kind_of(std::string_view phase, const char* freed_in);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/interned.ipp>
#endif
