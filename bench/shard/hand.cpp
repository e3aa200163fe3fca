// Defines the contestants `hand_fsdp` and `hand_ddp`, which do the same work in loops written by
// hand. Of ikebana they use only the model of examples/models/gpt.hpp.
#include <gpt_of.hpp>

#include "hand_ddp.hpp"
#include "hand_fsdp.hpp"

namespace {

using bench::Place, bench::Setting, bench::Step;

template <class Loop>
Step loop(const GPT& model, const Place& place) {
  auto shared = std::make_shared<Loop>(model, bench::make_gloo(place));
  return [shared](const bench::Batch& batch) { return shared->step(batch); };
}

Step contestant(const Setting& setting, const Place& place) {
  const GPT model = bench::gpt_of(setting);
  return setting.text("contestant") == "hand_ddp" ? loop<bench::HandDDP>(model, place)
                                                  : loop<bench::HandFSDP>(model, place);
}

int print_environment() {
  std::printf("%s (%s), %s, LibTorch %s\n", bench::processor().c_str(),
              at::get_cpu_capability().c_str(), bench::compiler(), TORCH_VERSION);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    const Setting setting(argc, argv);
    if (setting.number("environment")) return print_environment();
    const Place place(setting);
    return bench::serve(setting, place, contestant(setting, place));
  });
}
