// `TemporaryLoader<std::vector<Batch`
// `is a temporary, and would be gone before it is read` `validate` `Give it a name`
// `or give a std::unique_ptr or std::shared_ptr to it, which is kept`
#include "net.hpp"

std::vector<Batch> made();

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
#ifdef COUNTERPART
  auto held_out = std::make_unique<std::vector<Batch>>(loader);
  trainer.fit(loader, {.validate = std::move(held_out)});
#else
  trainer.fit(loader, {.validate = made()});
#endif
}
