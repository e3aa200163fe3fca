#pragma once
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/scope.hpp>

namespace ikebana {

IKEBANA_INLINE MemoryFacts MemoryScope::facts() const { return bridge::memory_facts(device_); }

IKEBANA_INLINE std::string MemoryScope::text() const {
  return (label().empty() ? "" : label() + ": ") + "allocated " + signed_bytes(allocated()) +
         ", peak " + signed_bytes(peak()) + ", on " + device_.str();
}

IKEBANA_INLINE std::string MemoryScope::signed_bytes(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "") + detail::short_bytes(bytes < 0 ? -bytes : bytes);
}

}  // namespace ikebana
