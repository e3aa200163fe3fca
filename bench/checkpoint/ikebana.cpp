// Trains the GPT under one choice of `Checkpoint`, as a contestant of checkpoint.py.
#include "gpt_of.hpp"
#include "watch.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::Setting;

template <class P, class Word>
Contestant recipe(const Setting& setting) {
  GPT model = bench::gpt_of(setting);
  const bench::Watch watch;
  auto trainer =
      std::make_shared<Trainer<GPT, AdamW, ClipGradNorm, bench::Watch, P, Word>>(model, watch);
  auto report = std::make_shared<Report>();
  return {[=](const Batch& batch) { *report = trainer->step(Tokens{batch.first, batch.second}); },
          [=] { return report->loss(); }, [=] { return *watch.bytes; }};
}

template <class P>
Contestant in_precision(const Setting& setting) {
  const std::string choice = setting.text("checkpoint");
  if (choice == "none") return recipe<P, Checkpoint<Off>>(setting);
  if (choice == "full") return recipe<P, Checkpoint<Full>>(setting);
  if (choice == "selective") return recipe<P, Checkpoint<Selective>>(setting);
  if (choice == "every") return recipe<P, Checkpoint<Every<2>>>(setting);
  if (choice == "segments") return recipe<P, Checkpoint<Segments<>>>(setting);
  throw std::runtime_error("checkpoint_ikebana: `" + choice + "` is not a choice of Checkpoint");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    Setting setting(argc, argv);
    return bench::serve(setting, setting.is_bf16() ? in_precision<Precision<BF16>>(setting)
                                                   : in_precision<Precision<FP32>>(setting));
  });
}
