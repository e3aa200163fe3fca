#pragma once
// Calls the main function of each contestant.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace bench {

/// Prints errors to stderr, which the driver reads. Ends without LibTorch's destructors, which take
/// seconds under a profiler.
template <class Main>
int guarded(Main&& body) {
  at::set_num_threads(1);
  at::globalContext().setBenchmarkCuDNN(true);  // as contestants.py
  try {
    const int result = body();
    std::fflush(nullptr);
    std::_Exit(result);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace bench
