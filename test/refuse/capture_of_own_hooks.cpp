// `OwnHooksInReplay<Capture<WholeStep>, CountsUnitsOfOnesOwn>`
// `CountsUnitsOfOnesOwn has a hook within forward or backward, which Capture<WholeStep> replays`
// `no hook of a policy of your own` `static constexpr bool is_replayed = true;`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/capture.hpp>
#endif

struct CountsUnitsOfOnesOwn {
  using axis = ikebana::axis::observe;
};
template <>
struct ikebana::Mechanism<CountsUnitsOfOnesOwn> : ObserveHooks {
#ifdef COUNTERPART
  static constexpr bool is_replayed = true;
#endif
  CountsUnitsOfOnesOwn values;
  explicit Mechanism(CountsUnitsOfOnesOwn v) : values(v) {}
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};

int main() {
  Trainer<Net, Capture<WholeStep>, CountsUnitsOfOnesOwn> trainer{Net()};
  trainer.step(Batch{});
}
