// `LogsNothing<Prints>` `Prints has no log(event) that can be called`
// `a logger takes steps, validations or epochs` `Write `
#include "net.hpp"

struct Prints {
  void log(const Epoch&) {}
#ifdef COUNTERPART
  void log(const Report&) {}
#else
  void log(Report&) {}
#endif
};

int main() {
  Trainer trainer{Net()};
  trainer.fit(std::vector<Batch>(), {.loggers = {Prints{}}});
}
