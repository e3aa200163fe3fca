// `MetricWithoutName<Unnamable>` `Unnamable has no name that is a text`
// `a metric has a name, by which its value is found` `Write `
#include "net.hpp"

struct Unnamable {
#ifdef COUNTERPART
  std::string name = "f1";
#else
  std::string name() const { return "f1"; }
#endif
  void update(const Batch&, const at::Tensor&) {}
  double value() const { return 1; }
};

int main() {
  Trainer trainer{Net()};
  trainer.evaluate(std::vector<Batch>(), Unnamable{});
}
