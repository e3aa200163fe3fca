#pragma once
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/leaks.hpp>

namespace ikebana {

IKEBANA_INLINE std::vector<Leak> LeakFinder::leaks() {
  std::map<const MemoryWhere*, Leak> by_place;
  for (const MemoryBlock& block : history_.record().blocks) {
    Leak& leak = by_place[block.where.get()];
    leak.bytes += block.bytes, ++leak.count, leak.where = block.where;
  }
  std::vector<Leak> all;
  for (auto& [place, leak] : by_place) all.push_back(std::move(leak));
  std::stable_sort(all.begin(), all.end(),
                   [](const Leak& a, const Leak& b) { return a.bytes > b.bytes; });
  return all;
}

IKEBANA_INLINE std::string LeakFinder::text() {
  std::string text;
  for (const Leak& leak : leaks()) {
    text += std::to_string(leak.count) + (leak.count == 1 ? " block, " : " blocks, ") +
            detail::bytes_text(leak.bytes) + ", made " + leak.where->text() + "\n";
    for (const std::string& function : leak.where->stack) text += "    " + function + "\n";
  }
  return text;
}

}  // namespace ikebana
