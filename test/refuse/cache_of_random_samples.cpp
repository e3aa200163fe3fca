// The compiler: `a cache would give the same random numbers in every epoch`
// `Cache the dataset before its augmentation`
#include <ikebana/files/ram_cache.hpp>
#include "net.hpp"

struct Images {
  std::int64_t size() const { return 8; }
  torch::Tensor get(std::int64_t index) const;
};
struct Augmented : Images {
  torch::Tensor get(std::int64_t index, SampleRng& rng) const;
};

int main() {
#ifdef COUNTERPART
  RamCache cache{Images(), {.max_bytes = 1}};
#else
  RamCache cache{Augmented(), {.max_bytes = 1}};
#endif
  (void)cache.size();
}
