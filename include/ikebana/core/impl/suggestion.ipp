#pragma once
#include <cstring>
#include <ikebana/core/suggestion.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const char* suggestion(const std::string& what) {
  for (const Hint& hint : hints)
    if (what.find(hint.phrase) != std::string::npos) return hint.text;
  return "Look at the operation that the text names.";
}

}  // namespace ikebana::detail
