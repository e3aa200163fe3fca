// `ProfileNotIncluded<Observe<Profile>>` `Observe<Profile> needs an include`
// `the profiler is in a header of its own` `#include <ikebana/observe/profile.hpp>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/observe/profile.hpp>
#endif

int main() {
  Trainer<Net, Observe<Profile>> trainer{Net()};
  trainer.step(Batch{});
}
