// What a step keeps for backward, with and without Checkpoint<Full>: bytes at the end of forward
// beyond those at its start, and the peak of the whole step. Counted, not timed: the same in every
// run. Writes a Markdown table, or csv with --csv.
#include <cstdio>
#include <cstring>
#include <gpt.hpp>

namespace {

using namespace ikebana;

/// Bytes beyond what there was when the step began.
struct Kept {
  std::int64_t forward = 0, peak = 0;
};

/// A policy of the benchmark's own: looks at memory between forward and backward.
struct Watch {
  using axis = axis::observe;
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
};

}  // namespace

template <>
struct ikebana::Mechanism<Watch> : ikebana::Hooks {
  Watch values;
  explicit Mechanism(Watch v) : values(std::move(v)) {}

  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Forward) counter_.reset_peak(), begin_ = counter_.now();
    if (phase == Phase::Backward) values.kept->forward = counter_.now() - begin_;
    return next();
  }
  void end_step(const StepGradients&, Report&) noexcept {
    values.kept->peak = counter_.peak() - begin_;
  }

 private:
  bridge::MemoryCounter counter_{at::kCPU};
  std::int64_t begin_ = 0;
};

namespace {

struct Shape {
  const char* name;
  GPTConfig config;
  std::int64_t rows;
};

/// Of the third step, when the optimizer has its state.
template <class... Words>
Kept measure(const Shape& shape) {
  torch::manual_seed(1);
  Watch watch;
  Trainer<GPT, AdamW, Watch, Words...> trainer(GPT(shape.config), watch);
  at::Tensor text = at::randint(256, {shape.rows, shape.config.context + 1});
  Tokens batch{text.slice(1, 0, -1).contiguous(), text.slice(1, 1).contiguous()};
  for (int i = 0; i < 3; ++i) trainer.step(batch);
  return *watch.kept;
}

template <class P>
void print(const Shape& shape, const char* precision, bool csv) {
  Kept none = measure<P>(shape), full = measure<P, Checkpoint<Full>>(shape);
  auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::printf(csv ? "%s,%s,%.1f,%.1f,%.3f,%.1f,%.1f,%.3f\n"
                  : "| %s | %s | %.1f | %.1f | %.3f | %.1f | %.1f | %.3f |\n",
              shape.name, precision, mib(none.forward), mib(full.forward),
              mib(full.forward) / mib(none.forward), mib(none.peak), mib(full.peak),
              mib(full.peak) / mib(none.peak));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  bool csv = count > 1 && !std::strcmp(words[1], "--csv");
  at::set_num_threads(1);
  std::puts(csv ? "model,precision,kept_mib,kept_full_mib,ratio,peak_mib,peak_full_mib,peak_ratio"
                : "| model | precision | kept MiB | under Checkpoint<Full> | ratio | peak MiB "
                  "| under Checkpoint<Full> | ratio |\n|---|---|---:|---:|---:|---:|---:|---:|");
  for (const Shape& shape :
       {Shape{"GPT 4x128, 12 x 64", {}, 12},
        Shape{"GPT 6x384, 8 x 256", {.layers = 6, .width = 384, .heads = 6, .context = 256}, 8}}) {
    print<Precision<FP32>>(shape, "FP32", csv);
    print<Precision<BF16>>(shape, "BF16", csv);
  }
}
