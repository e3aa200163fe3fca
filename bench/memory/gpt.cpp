// Measures rows of the GPT: optimizers and precisions that keep other copies and other state.
#include <models/gpt.hpp>

#include "measure.hpp"
#include "models.hpp"

namespace {

using namespace ikebana;

template <class... Policies>
bool row(const char* recipe) {
  const GPTConfig config;
  const auto maker = [&] { return GPT(config); };
  const auto batch = [&] { return random_batch(config, 48, 64); };
  return bench::print(bench::measure<Trainer<GPT, Policies...>>("GPT", recipe, maker, batch));
}

}  // namespace

bool bench::gpt_rows() {
  bool all = row<AdamW8bit>("AdamW8bit");
  all &= row<Muon>("Muon");
  all &= row<AdamW, Precision<BF16Weights>>("AdamW, BF16Weights");
  return row<AdamW, Precision<FP16>>("AdamW, FP16") && all;
}
