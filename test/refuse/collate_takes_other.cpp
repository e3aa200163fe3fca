// `CannotCollate<TakesOne, Word>` `TakesOne cannot be called with a std::vector of Word`
// `cannot call this collate function` `Write`
#include "net.hpp"

struct Word {
  std::vector<std::int64_t> letters;
};
struct Words {
  std::int64_t size() const { return 8; }
  Word get(std::int64_t index) const;
};
struct TakesOne {
  Batch operator()(const Word&) const;
};
struct TakesAll {
  Batch operator()(const std::vector<Word>&) const;
};

int main() {
#ifdef COUNTERPART
  DataLoader loader{Words(), {.batch_size = 4}, TakesAll()};
#else
  DataLoader loader{Words(), {.batch_size = 4}, TakesOne()};
#endif
}
