#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/record.hpp>

namespace ikebana {

IKEBANA_INLINE std::string MemoryWhere::text() const {
  std::string all = phase;
  if (!unit.empty()) all += (all.empty() ? "" : " of ") + unit;
  for (const std::string& label : labels) all += (all.empty() ? "in " : ", in ") + label;
  return all.empty() ? "(no label)" : all;
}

}  // namespace ikebana
