// `TransformReturnsNoPair<at::Tensor>` `the function of an OutputTransform returns at::Tensor`
// `returns both tensors` `return std::pair{outputs, target}`
#include <ikebana/metrics.hpp>
#include "net.hpp"

int main() {
  OutputTransform metric{MeanAbsoluteError{}, [](const Batch& batch, const torch::Tensor& outputs) {
#ifdef COUNTERPART
                           return std::pair{outputs, batch.target};
#else
    return outputs - batch.target;
#endif
                         }};
  metric.update(Batch{}, torch::Tensor());
}
