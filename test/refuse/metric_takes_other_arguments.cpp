// `MetricTakesOtherArguments<OutputsFirst, Batch>`
// `the update of OutputsFirst cannot be called with Batch and a tensor`
// `a metric is updated with each batch` `const at::Tensor& outputs`
#include "net.hpp"

struct OutputsFirst {
  std::string name = "f1";
#ifdef COUNTERPART
  void update(const Batch&, const at::Tensor&) {}
#else
  void update(const at::Tensor&, const Batch&) {}
#endif
  double value() const { return 1; }
};

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
  trainer.fit(loader, {.validate = loader, .metrics = {OutputsFirst{}}});
}
