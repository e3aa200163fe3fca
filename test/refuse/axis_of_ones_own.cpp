// `NotAnAxis<OnOwnAxis, OwnAxis>` `OnOwnAxis has the axis OwnAxis, which no recipe has`
// `must be one of namespace axis` `Write one of them` `using axis = axis::clip` `: axis::own {}`
#include "net.hpp"

#ifdef COUNTERPART
struct OwnAxis : axis::own {};
#else
struct OwnAxis {
  using default_policy = AdamW;
};
#endif
struct OnOwnAxis {
  using axis = OwnAxis;
};
template <>
struct ikebana::Mechanism<OnOwnAxis> : Hooks {
  OnOwnAxis values;
  explicit Mechanism(OnOwnAxis v) : values(v) {}
};

int main() {
  Trainer<Net, OnOwnAxis> trainer{Net()};
  trainer.step(Batch{});
}
