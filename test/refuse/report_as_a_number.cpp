// `ReportIsNoNumber<Report, double>` `Report is no double`
// `what step and evaluate return is a report` `trainer.step(batch).loss()`
#include "net.hpp"

int main() {
  Trainer<Net> trainer{Net()};
#ifdef COUNTERPART
  double loss = trainer.step(Batch{}).loss();
#else
  double loss = trainer.step(Batch{});
#endif
  return loss > 0;
}
