// Bytes that a rank holds under each policy on shard, counted by LibTorch's allocator: prints those
// between steps, of gradients between two microbatches and at the update, and of gathered units at
// the peak of a step.
#include <gpt_of.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/shard.hpp>

#include "rank.hpp"

namespace {

using namespace ikebana;
using bench::Place, bench::Setting;

struct Held {
  std::int64_t rest = 0, between = 0, update = 0, peak = 0;
};
/// Measures memory in a step.
struct Watch {
  using axis = axis::observe;
  std::shared_ptr<Held> held = std::make_shared<Held>();
};

}  // namespace

template <>
struct ikebana::Mechanism<Watch> : ikebana::ObserveHooks {
  Watch values;
  explicit Mechanism(Watch v) : values(std::move(v)) {}

  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    counter_.reset_peak();
    values.held->rest = counter_.now();
    return next();
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Forward) values.held->between = counter_.now() - values.held->rest;
    return next();
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    values.held->update = counter_.now() - values.held->rest;
  }
  void end_step(const StepGradients&, Report&) noexcept {
    values.held->peak = counter_.peak() - values.held->rest;
  }

 private:
  bridge::MemoryCounter counter_{at::kCPU};
};

namespace {

/// Trains on two microbatches of the first token of a row, so that activations take next to
/// nothing.
template <class T>
void train(T& trainer, const Setting& setting, const Place& place) {
  const auto batch = bench::own_batches(setting, place).front();
  auto token = [](const at::Tensor& t) { return t.narrow(0, 0, 2).narrow(1, 0, 1).clone(); };
  const Tokens tokens{token(batch.first), token(batch.second)};
  for (int i = 0; i < 3; ++i) trainer.step(tokens);
}

/// Only the embedding of positions is trained if gathered units are measured. Gradients then take
/// next to nothing, and backward passes through all blocks.
template <class How>
void measure(const Setting& setting, const Place& place, Shard<How> policy) {
  policy.process_group = ProcessGroup(place.store, place.rank, place.size);
  const bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  Watch watch;
  const AdamW adamw{.lr = 1e-3};
  if (setting.number("frozen")) {
    const Freeze<> freeze{.match = [](const std::string& name, const at::Tensor&) {
      return name != "position.weight";
    }};
    Trainer<GPT, AdamW, Freeze<>, Watch, Shard<How>> trainer(bench::gpt_of(setting), adamw, freeze,
                                                             watch, policy);
    train(trainer, setting, place);
  } else {
    Trainer<GPT, AdamW, Accumulate<2>, Watch, Shard<How>> trainer(bench::gpt_of(setting), adamw,
                                                                  watch, policy);
    train(trainer, setting, place);
  }
  const Held& held = *watch.held;
  for (std::int64_t bytes : {held.rest - before, held.between, held.update, held.peak})
    std::printf("%lld ", static_cast<long long>(bytes));
  std::puts("");
}

void measure(const Setting& setting, const Place& place) {
  const std::string name = setting.text("contestant");
  if (name == "fsdp") return measure<FSDP>(setting, place, {});
  if (name == "fsdp_plain")
    return measure<FSDP>(setting, place, {.forward_prefetch = false, .backward_prefetch = false});
  if (name == "zero1") return measure<ZeRO1>(setting, place, {});
  if (name == "zero2") return measure<ZeRO2>(setting, place, {});
  if (name == "ddp") return measure<DDP>(setting, place, {});
  throw std::runtime_error("shard_memory: there is no contestant `" + name + "`");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    const Setting setting(argc, argv);
    measure(setting, Place(setting));
    return 0;
  });
}
