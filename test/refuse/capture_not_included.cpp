// `CaptureNotIncluded<Capture<WholeStep>>` `Capture<WholeStep> needs an include`
// `what records steps is in a header of its own` `#include <ikebana/capture.hpp>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/capture.hpp>
#endif

int main() {
  Trainer<Net, Capture<WholeStep>> trainer{Net()};
  trainer.step(Batch{});
}
