// `MetricNeedsTarget<WithoutLabels>` `WithoutLabels has no target that a metric finds`
// `a metric compares outputs with the target of a batch` `Name the field so` `OutputTransform`
#include <ikebana/metrics.hpp>
#include "net.hpp"

struct WithoutLabels {
  torch::Tensor input, pixels;
};

int main() {
  F1Score<Binary> metric;
#ifdef COUNTERPART
  metric.update(Batch{}, torch::Tensor());
#else
  metric.update(WithoutLabels{}, torch::Tensor());
#endif
}
