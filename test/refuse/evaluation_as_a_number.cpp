// `ReportIsNoNumber<Evaluation, float>` `Evaluation is no float`
// `what step and evaluate return is a report` `trainer.evaluate(loader).loss`
#include "net.hpp"

int main() {
  Trainer<Net> trainer{Net()};
  std::vector<Batch> loader;
#ifdef COUNTERPART
  Evaluation held_out = trainer.evaluate(loader);
  std::cout << held_out;
  float loss = static_cast<float>(held_out.loss);
#else
  float loss = trainer.evaluate(loader);
#endif
  return loss > 0;
}
