#pragma once
// Changes of a safetensors file, and what loading it must do.
#include "state/campaign/document.hpp"

namespace campaign {

/// Rejected; loaded as the same state; loaded as another state, exactly the one in the changed
/// file; or any of these.
enum class Outcome { Rejected, Same, Other, Any };

struct Edit {
  const char* name;
  Outcome with_header, with_all;  // if the header's checksum is corrected; if all are
  void (*apply)(Document& document, Random& random);
};

const std::vector<Edit>& edits_of_entries();
const std::vector<Edit>& edits_of_text();

template <class List>
auto& any_of(List& list, Random& random) {
  return *(std::begin(list) + static_cast<std::int64_t>(random() % std::size(list)));
}

/// Sometimes returns more than 15 * 2^17, for which a growing string takes 1 MiB more than it
/// needs.
inline std::size_t long_length(Random& random) {
  return random() % 8 == 0 ? 2'000'000 + random() % 500'000 : 5'000 + random() % 5'000;
}

}  // namespace campaign
