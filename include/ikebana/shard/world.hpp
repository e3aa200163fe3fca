#pragma once
#include <cstdint>
#include <string>
namespace ikebana {
struct World {
  std::int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  static World from_environment() { return {}; }
};
}  // namespace ikebana
