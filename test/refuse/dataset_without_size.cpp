// `DatasetWithoutSize<Endless>` `Endless has no size()` `needs the number of samples`
// `Give the dataset`
#include "net.hpp"

struct Endless {
  Batch get(std::int64_t index) const;
};
struct Counted : Endless {
  std::size_t size() const { return 8; }
};

int main() {
#ifdef COUNTERPART
  DataLoader loader{Counted(), {.batch_size = 4}};
#else
  DataLoader loader{Endless(), {.batch_size = 4}};
#endif
}
