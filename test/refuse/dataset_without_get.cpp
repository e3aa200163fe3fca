// `NotADataset<Unreadable>` `Unreadable has neither get nor get_batch`
// `cannot read a sample of this dataset` `Give it`
#include "net.hpp"

struct Unreadable {
  std::int64_t size() const { return 8; }
  Batch at(std::int64_t index) const;
};
struct Readable : Unreadable {
  Batch get(std::int64_t index) const;
};

int main() {
#ifdef COUNTERPART
  DataLoader loader{Readable(), {.batch_size = 4}};
#else
  DataLoader loader{Unreadable(), {.batch_size = 4}};
#endif
}
