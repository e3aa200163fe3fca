#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana::detail {

IKEBANA_INLINE void check_unchanged(bool is_same, const char* value) {
  if (!is_same)
    throw BadValue(std::string(value) +
                   " was changed after the trainer was made, which alone uses it. Make a new "
                   "trainer.");
}

}  // namespace ikebana::detail
