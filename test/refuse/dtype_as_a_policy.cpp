// `MeantAnotherPolicy<c10::ScalarType, Precision<BF16>>`
// `c10::ScalarType is not a policy; write Precision<BF16>`
// `one of its types only resembles a policy` `Precision<BF16> for BF16`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Precision<BF16>{}};
#else
  Trainer trainer{Net(), torch::kBFloat16};
#endif
  trainer.step(Batch{});
}
