// The compiler: `DiskCache keeps samples of tensors, numbers and texts`
#include <ikebana/files/disk_cache.hpp>
#include "net.hpp"

struct Numbers {
  std::int64_t size() const { return 8; }
  std::vector<double> get(std::int64_t index) const;
};
struct Pointers : Numbers {
  std::shared_ptr<double> get(std::int64_t index) const;
};

int main() {
#ifdef COUNTERPART
  DiskCache cache{Numbers(), "cache", {.key = "1"}};
#else
  DiskCache cache{Pointers(), "cache", {.key = "1"}};
#endif
  (void)cache.size();
}
