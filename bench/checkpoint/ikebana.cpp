// The GPT under one choice of `Checkpoint`, as a contestant of checkpoint.py.
#include "gpt_of.hpp"
#include "worker.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::Setting;

/// Measures memory between forward and backward.
struct Watch {
  using axis = axis::observe;
  std::shared_ptr<bench::Bytes> bytes = std::make_shared<bench::Bytes>();
};

}  // namespace

template <>
struct ikebana::Mechanism<Watch> : ikebana::ObserveHooks {
  Watch values;
  explicit Mechanism(Watch v) : values(std::move(v)) {}

  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Forward) counter_.reset_peak(), begin_ = counter_.now();
    if (phase == Phase::Backward) values.bytes->kept = counter_.now() - begin_;
    return next();
  }
  void end_step(const StepGradients&, Report&) noexcept {
    values.bytes->peak = counter_.peak() - begin_;
  }

 private:
  bridge::MemoryCounter counter_{at::kCPU};
  std::int64_t begin_ = 0;
};

namespace {

template <class P, class Word>
Contestant recipe(const Setting& setting) {
  GPT model = bench::gpt_of(setting);
  Watch watch;
  auto trainer = std::make_shared<Trainer<GPT, AdamW, ClipGradNorm, Watch, P, Word>>(model, watch);
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
