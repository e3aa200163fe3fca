// The contestant `captured`: the recipes of `ikebana` for small rows, with Capture<WholeStep>.
#include <ikebana/capture.hpp>

#include "guarded.hpp"
#include "mlp.hpp"
#include "train.hpp"

namespace {

using namespace ikebana;
using bench::Contestant, bench::MLP, bench::Setting, bench::train;

template <class P>
Contestant in_precision(const Setting& setting) {
  if (setting.is_gpt())
    return train(std::make_shared<Trainer<GPT, AdamW, P, ClipGradNorm, Capture<WholeStep>>>(
        bench::gpt_of(setting)));
  MLP model(setting.number("width"));
  bench::read_weights(setting, *model);
  using T = Trainer<MLP, CrossEntropyLoss, AdamW, P, ClipGradNorm, Capture<WholeStep>>;
  return train(std::make_shared<T>(model));
}

Contestant contestant(const Setting& setting) {
  return setting.is_bf16() ? in_precision<Precision<BF16>>(setting)
                           : in_precision<Precision<FP32>>(setting);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] { return bench::serve_rows(argc, argv, contestant); });
}
