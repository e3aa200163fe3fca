// `CannotStack<Labelled, Labelled>` `Labelled cannot be stacked, because of Labelled`
// `its numbers cannot become tensors` `Return a std::tuple`
#include "net.hpp"

struct Labelled {
  torch::Tensor image;
  std::int64_t label;
};
struct Photos {
  std::int64_t size() const { return 8; }
  Labelled get(std::int64_t index) const;
};
struct PhotosInPairs {
  std::int64_t size() const { return 8; }
  std::pair<torch::Tensor, std::int64_t> get(std::int64_t index) const;
};

int main() {
#ifdef COUNTERPART
  DataLoader loader{PhotosInPairs(), {.batch_size = 4}};
  DataLoader collated{Photos(), {}, [](const std::vector<Labelled>&) { return Batch(); }};
#else
  DataLoader loader{Photos(), {.batch_size = 4}};
#endif
}
