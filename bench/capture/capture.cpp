// Steps of small and large models under Capture beside the same steps without it, in turn. The
// losses of both must be equal to the bit.
#include <time.h>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/capture.hpp>
#include <models/gpt.hpp>
#include <models/lstm.hpp>
#include <string_view>

#include "../conditions.hpp"
#include "../step/fused_resnet.hpp"
#include "../step/mlp.hpp"

namespace {

using namespace ikebana;
using bench::MLP;
namespace nn = torch::nn;

struct Rows {
  at::Tensor input, target;
};

/// A step of PPO, on 64 carts for 32 steps, in minibatches of 512.
struct Rollout {
  at::Tensor observation, action, log_prob, advantage, gain;
};
struct ActorCriticImpl : nn::Module {
  nn::Sequential actor = register_module("actor", body(2));
  nn::Sequential critic = register_module("critic", body(1));

  static nn::Sequential body(std::int64_t outputs) {
    return nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                          nn::Linear(64, outputs));
  }
  template <class Run>
  Loss loss(Run&, const Rollout& b) {
    const at::Tensor log_probs = actor->forward(b.observation).log_softmax(1);
    const at::Tensor value = critic->forward(b.observation).squeeze(1);
    const at::Tensor ratio =
        (log_probs.gather(1, b.action.unsqueeze(1)).squeeze(1) - b.log_prob).exp();
    const at::Tensor policy =
        -at::minimum(ratio * b.advantage, ratio.clamp(0.8, 1.2) * b.advantage).sum();
    const at::Tensor entropy = (log_probs.exp() * log_probs).sum();
    const auto n = b.gain.numel();
    return {.terms = {{"policy", policy, n, 1},
                      {"value", (value - b.gain).square().sum(), n, 0.5},
                      {"entropy", entropy, n, 0.01}}};
  }
};
TORCH_MODULE(ActorCritic);

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class T, class Batch>
double seconds_of(T& trainer, const std::vector<Batch>& batches, int steps) {
  const double begin = processor_seconds();
  for (int i = 0; i < steps; ++i)
    trainer.step(batches[static_cast<std::size_t>(i) % batches.size()]);
  return (processor_seconds() - begin) / steps;
}

/// Returns the most bytes that are in use during some steps.
template <class T, class Batch>
std::int64_t peak_of(T& trainer, const std::vector<Batch>& batches, int steps) {
  bridge::MemoryCounter counter(at::kCPU);
  for (int i = 0; i < steps; ++i)
    trainer.step(batches[static_cast<std::size_t>(i) % batches.size()]);
  return counter.peak();
}

struct Size {
  int rounds, steps;
};
std::string chosen;

template <class T, class Make>
T made(const Make& make) {
  torch::manual_seed(1);
  return T(make());
}
/// Returns the peak of a trainer while no other exists.
template <class T, class Batch, class Make>
double peak_alone(const std::vector<Batch>& batches, const Make& make) {
  T trainer = made<T>(make);
  const int steps = static_cast<int>(4 * batches.size());
  seconds_of(trainer, batches, steps);
  return static_cast<double>(peak_of(trainer, batches, steps));
}
/// Makes steps of both, and returns whether their losses are equal.
template <class Eager, class Captured, class Batch>
bool equal_steps(Eager& eager, Captured& captured, const std::vector<Batch>& batches,
                 std::size_t steps) {
  bool equal = true;
  for (std::size_t i = 0; i < steps; ++i) {
    const Batch& batch = batches[i % batches.size()];
    equal = eager.step(batch).loss() == captured.step(batch).loss() && equal;
  }
  return equal;
}

/// Returns the operators of the tapes that a step replays, and the MiB of their arena.
std::pair<std::size_t, double> size_of(const Mechanism<Capture<WholeStep>>& capture) {
  return {capture.tapes().all()[0]->tape()->size(),
          static_cast<double>(capture.arena_bytes()) / 1048576};
}
std::pair<std::size_t, double> size_of(const Mechanism<Capture<EachUnit>>& capture) {
  std::size_t operators = 0, bytes = 0;
  for (const auto& unit : capture.units())
    for (const auto& tape : unit.tapes.all())
      if (tape->is_ready())
        operators += tape->tape()->size(), bytes = std::max(bytes, tape->tape()->arena_bytes());
  return {operators, static_cast<double>(bytes) / 1048576};
}

/// Prints a row: both trainers begin with the same weights and random numbers.
template <class What = WholeStep, class Eager, class Captured, class Batch, class Make>
void row(const std::string& name, double bar, Size size, const std::vector<Batch>& batches,
         const Make& make) {
  if (name.find(chosen) == std::string::npos) return;
  const double peak = peak_alone<Captured>(batches, make) / peak_alone<Eager>(batches, make);
  Eager eager = made<Eager>(make);
  Captured captured = made<Captured>(make);
  bool equal = equal_steps(eager, captured, batches, 4 * batches.size());
  std::vector<double> times[2], ratios;
  for (int r = 0; r < size.rounds; ++r) {
    times[0].push_back(seconds_of(eager, batches, size.steps));
    times[1].push_back(seconds_of(captured, batches, size.steps));
    ratios.push_back(times[0].back() / times[1].back());
  }
  equal = equal_steps(eager, captured, batches, 3) && equal;
  const auto [operators, arena] = size_of(captured.template mechanism<Capture<What>>());
  std::printf("| %s | %.4g | %.4g | **%.3f** | %.2f | %.3f | %s | %zu | %.3g |\n", name.c_str(),
              bench::median(times[0]) * 1e6, bench::median(times[1]) * 1e6, bench::median(ratios),
              bar, peak, equal ? "equal" : "DIFFER", operators, arena);
  std::fflush(stdout);
}

std::vector<Rows> class_rows(std::int64_t rows, std::int64_t width) {
  torch::manual_seed(3);
  std::vector<Rows> all;
  for (int i = 0; i < 4; ++i)
    all.push_back({torch::randn({rows, width}), torch::randint(width, {rows}, at::kLong)});
  return all;
}
std::vector<Tokens> token_rows(std::int64_t rows, std::vector<std::int64_t> lengths) {
  torch::manual_seed(3);
  std::vector<Tokens> all;
  for (const std::int64_t n : lengths) {
    const at::Tensor t = torch::randint(97, 123, {rows, n + 1}, at::kLong);
    all.push_back({t.narrow(1, 0, n).contiguous(), t.narrow(1, 1, n).contiguous()});
  }
  return all;
}

template <class What = WholeStep, class... Policies>
void mlp(const std::string& name, double bar, std::int64_t width, std::int64_t rows, Size size) {
  using E = Trainer<MLP, CrossEntropyLoss, AdamW, ClipGradNorm, Policies...>;
  using C = Trainer<MLP, CrossEntropyLoss, AdamW, ClipGradNorm, Policies..., Capture<What>>;
  row<What, E, C>(name, bar, size, class_rows(rows, width), [=] { return MLP(width); });
}
template <class What = WholeStep, class... Policies>
void gpt(const std::string& name, double bar, GPTConfig config, const std::vector<Tokens>& batches,
         Size size) {
  using E = Trainer<GPT, AdamW, ClipGradNorm, Policies...>;
  using C = Trainer<GPT, AdamW, ClipGradNorm, Policies..., Capture<What>>;
  row<What, E, C>(name, bar, size, batches, [=] { return GPT(config); });
}

void ppo() {
  torch::manual_seed(3);
  std::vector<Rollout> all;
  for (int i = 0; i < 4; ++i)
    all.push_back({torch::randn({512, 4}), torch::randint(2, {512}, at::kLong), -torch::rand({512}),
                   torch::randn({512}), torch::randn({512})});
  row<WholeStep, Trainer<ActorCritic, AdamW, ClipGradNorm>,
      Trainer<ActorCritic, AdamW, ClipGradNorm, Capture<WholeStep>>>("PPO step", 1.2, {41, 20}, all,
                                                                     [] { return ActorCritic(); });
}
void lstm() {
  row<WholeStep, Trainer<LSTMLanguageModel, AdamW, ClipGradNorm>,
      Trainer<LSTMLanguageModel, AdamW, ClipGradNorm, Capture<WholeStep>>>(
      "LSTM 2x128", 1.0, {15, 2}, token_rows(16, {32, 32}),
      [] { return LSTMLanguageModel(LSTMConfig{.width = 128}); });
}
void resnet() {
  torch::manual_seed(3);
  std::vector<Rows> images;
  for (int i = 0; i < 2; ++i)
    images.push_back({torch::randn({32, 3, 32, 32}), torch::randint(10, {32}, at::kLong)});
  using bench::FusedResNet;
  row<WholeStep, Trainer<FusedResNet, CrossEntropyLoss, AdamW, Layout<ChannelsLast>>,
      Trainer<FusedResNet, CrossEntropyLoss, AdamW, Layout<ChannelsLast>, Capture<WholeStep>>>(
      "ResNet-18 of width 16", 0.99, {15, 1}, images, [] { return FusedResNet(16, 10); });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const bridge::MemoryCounter counts_from_here(at::kCPU);
  if (argc > 1) chosen = argv[1];
  bench::print_conditions("", 0);
  std::printf(
      "| | without us | captured us | ratio | bar | peak | losses | operators | arena MiB |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  mlp<>("MLP 3x16", 1.5, 16, 32, {41, 100});
  mlp<WholeStep, Precision<BF16>>("MLP 3x16 BF16", 1.4, 16, 32, {41, 50});
  mlp<>("MLP 3x256", 1.05, 256, 256, {41, 10});
  mlp<WholeStep, Precision<BF16>>("MLP 3x256 BF16", 0.99, 256, 256, {41, 10});
  mlp<WholeStep, Accumulate<4>>("MLP 3x16, Accumulate<4>", 0.99, 16, 32, {41, 20});
  const GPTConfig large{.layers = 6, .width = 384, .heads = 6, .context = 256};
  gpt<>("GPT 4x128", 1.03, {}, token_rows(12, {64, 64, 64, 64}), {15, 4});
  gpt<WholeStep, Precision<BF16>>("GPT 4x128 BF16", 0.99, {}, token_rows(12, {64, 64, 64, 64}),
                                  {15, 4});
  gpt<WholeStep, Checkpoint<Full>>("GPT 4x128, Checkpoint<Full>", 0.99, {},
                                   token_rows(12, {64, 64}), {15, 4});
  gpt<>("GPT 4x128, 8 lengths", 1.0, {}, token_rows(12, {64, 8, 32, 16, 48, 24, 56, 40}), {15, 8});
  gpt<>("GPT 6x384", 0.99, large, token_rows(8, {256, 256}), {7, 1});
  gpt<WholeStep, Precision<BF16>>("GPT 6x384 BF16", 0.99, large, token_rows(8, {256, 256}), {9, 1});
  ppo(), lstm(), resnet();
  mlp<EachUnit>("MLP 3x16, EachUnit", 1.0, 16, 32, {41, 100});
  gpt<EachUnit>("GPT 4x128, EachUnit", 1.0, {}, token_rows(12, {64, 64, 64, 64}), {15, 4});
  gpt<EachUnit, Precision<BF16>>("GPT 4x128 BF16, EachUnit", 1.0, {},
                                 token_rows(12, {64, 64, 64, 64}), {15, 4});
  gpt<EachUnit, Checkpoint<Full>>("GPT 4x128, Checkpoint<Full>, EachUnit", 1.0, {},
                                  token_rows(12, {64, 64}), {15, 4});
}
