// `CopiedTrainer<Trainer<Net` `is copied`
// `a trainer cannot be copied` `Pass it by reference` `std::move(trainer)`
#include "net.hpp"

int main() {
  Trainer<Net> trainer{Net()};
#ifdef COUNTERPART
  auto& other = trainer;
#else
  auto other = trainer;
#endif
  other.step(Batch{});
}
