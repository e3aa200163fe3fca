// `NotAModel<int>` `not a module` `Give a holder made by TORCH_MODULE`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer trainer{Net(), AdamW{}};
#else
  Trainer trainer{5, AdamW{}};
#endif
  trainer.step(Batch{});
}
