// Steps of optimizers that update by LibTorch's operators on every device may be recorded.
#include "recorded.hpp"

namespace guarantees::recording_operators {

template <class... Policies>
void check(const std::string& name, double bound, const Policies&... policies) {
  check_recording<RecordedNet>(name, bound, CrossEntropyLoss{}, policies...);
}

// Numbers that the host computes with are tensors while a step is recorded.
TEST_CASE("recording: optimizers that update by operators on every device") {
  check("RMSprop", 1e-5, RMSprop{.momentum = 0.9, .centered = true},
        CosineAnnealingLR{.T_max = 10});
  check("NAdam, RAdam", 1e-5,
        Combined<NAdam, RAdam>{.match = named("first.*"), .rest = {.betas = {0.9, 0.5}}});
  check("Adamax, Adadelta", 1e-5, Combined<Adamax, Adadelta>{.match = named("first.*")});
  check("ASGD, Rprop", 1e-5, Combined<ASGD, Rprop>{.match = named("first.*"), .first = {.t0 = 1}});
  check("LAMB", 1e-5, LAMB{.lr = 0.01});
}

}  // namespace guarantees::recording_operators
