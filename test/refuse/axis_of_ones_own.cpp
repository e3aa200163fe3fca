// `NotAnAxis<OnOwnAxis, OwnAxis>` `OnOwnAxis has the axis OwnAxis, which no recipe has`
// `must be one of namespace axis` `Write one of them` `using axis = axis::clip`
#include "net.hpp"

struct OwnAxis {
  using default_policy = AdamW;
};
struct OnOwnAxis {
  using axis = OwnAxis;
};

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, OnOwnAxis> trainer{Net()};
#endif
  trainer.step(Batch{});
}
