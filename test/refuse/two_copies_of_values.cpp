// `TwoCopiesOfValues<Clips, ClipGradNorm>`
// `the Mechanism of Clips derives from that of ClipGradNorm, whose hooks read values of their own`
// `would change those that the inherited hooks do not read` `Hold a Mechanism` `or derive both`
#include "net.hpp"

struct Clips {
  using axis = ikebana::axis::clip;
  double max_norm = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Clips> : ClipHooks {
  Clips values;
  explicit Mechanism(Clips v) : values(v) {}
  static constexpr bool takes_divisor = true;
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    inner_.values.max_norm = values.max_norm;
    inner_.clip(gradients, ranks);
  }

 private:
  Mechanism<ClipGradNorm> inner_{ClipGradNorm{}};
};
#else
template <>
struct ikebana::Mechanism<Clips> : Mechanism<ClipGradNorm> {
  Clips values;
  explicit Mechanism(Clips v)
      : Mechanism<ClipGradNorm>(ClipGradNorm{.max_norm = v.max_norm}), values(v) {}
};
#endif

int main() {
  Trainer<Net, Clips> trainer{Net()};
  trainer.step(Batch{});
}
