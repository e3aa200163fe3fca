#pragma once
// What one may do to a file of tensors, and what must become of it.
#include "state/campaign/document.hpp"

namespace campaign {

/// Rejected; loaded as the same state; as another one, which is exactly what the file then says; or
/// one of these.
enum class Diagnosis { Rejected, Same, Other, Any };

struct Edit {
  const char* name;
  Diagnosis with_header, with_all;  // where the header's checksum was mended; where all were
  void (*apply)(Document& document, Random& random);
};

const std::vector<Edit>& edits_of_entries();
const std::vector<Edit>& edits_of_text();

template <class List>
auto& any_of(List& list, Random& random) {
  return *(std::begin(list) + static_cast<std::int64_t>(random() % std::size(list)));
}

/// Now and then more than 15 * 2^17, where a string that grows takes 1 MiB more than it needs.
inline std::size_t long_length(Random& random) {
  return random() % 8 == 0 ? 2'000'000 + random() % 500'000 : 5'000 + random() % 5'000;
}

}  // namespace campaign
