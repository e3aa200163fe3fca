// `NotADataset<Unreadable>` `cannot ask this dataset for a sample` `Give it `
#include "net.hpp"

struct Unreadable {
  std::int64_t size() const { return 8; }
  Batch at(std::int64_t index) const;
};
struct Readable : Unreadable {
  Batch get(std::int64_t index) const;
};

int main() {
#ifdef TWIN
  DataLoader loader{Readable(), {.batch_size = 4}};
#else
  DataLoader loader{Unreadable(), {.batch_size = 4}};
#endif
}
