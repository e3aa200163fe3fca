// `MeantAnotherPolicy<c10::DeviceType, On>`
// `c10::DeviceType is not a policy; write On`
// `one of its types only resembles a policy` `On{torch::kCUDA} for torch::kCUDA`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), On{torch::kCPU}};
#else
  Trainer trainer{Net(), torch::kCPU};
#endif
  trainer.step(Batch{});
}
