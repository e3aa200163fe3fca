// `MetricWithoutValue<ResultIsATensor>` `ResultIsATensor has no value() that is a number`
// `the result of a metric is one number` `with .item<double>() for a tensor`
#include "net.hpp"

struct ResultIsATensor {
  std::string name = "f1";
  at::Tensor sum = {};
  void update(const Batch&, const at::Tensor&) {}
#ifdef COUNTERPART
  double value() const { return sum.item<double>(); }
#else
  at::Tensor value() const { return sum; }
#endif
};

int main() {
  Trainer trainer{Net()};
  trainer.evaluate(std::vector<Batch>(), ResultIsATensor{});
}
