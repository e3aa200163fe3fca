// `TensorsOfOthers<WithSpan>` `WithSpan refers to tensors that it does not own`
// `std::vector<at::Tensor> instead of a span`
#include <span>

#include "net.hpp"

struct WithSpan {
  torch::Tensor input, target;
#ifdef COUNTERPART
  std::span<const double> more;
#else
  std::span<torch::Tensor> more;
#endif
};

int main() { split(WithSpan{}, 2); }
