// The same ten steps by several recipes: the last loss, the peak of memory, the time of a step.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "digits.hpp"
using namespace ikebana;

template <class... Policies>
void compare(const char* name, Policies... policies) {
  torch::manual_seed(0);
  Digits batch = draw(256);
  Trainer trainer{Reader(), AdamW{.lr = 2e-3}, Observe<Memory>{}, policies...};
  Report report;
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    report = trainer.step(batch);
    seconds.push_back(report.seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-33s loss %.6f  peak %4.1f MiB  %4.0f ms\n", name, report.loss(),
              double(*report.peak_bytes) / (1 << 20), 1e3 * seconds[5]);
}

int main() {
  compare("AdamW");
  compare("Checkpoint<Full>", Checkpoint<Full>{});
  compare("Accumulate<4>", Accumulate<4>{});
  compare("Checkpoint<Full>, Accumulate<4>", Checkpoint<Full>{}, Accumulate<4>{});
  compare("Precision<BF16>", Precision<BF16>{});
  return 0;
}
