#pragma once
// Steps a recipe with Capture<WholeStep> beside the same recipe without it, through what happens to
// a training, and compares every bit.
#include "recorded.hpp"

#include <ikebana/capture.hpp>
#include <limits>

namespace guarantees {

/// What a step reports and leaves, or the error that it throws.
struct Outcome {
  std::string error;
  std::vector<at::Tensor> numbers;
  StateDict state;
};

template <class T>
StateDict state_of(T& trainer) {
  StateDict state = trainer.state();
  for (auto& [name, t] : state) t = t.clone();
  return state;
}

template <class T, class Batch>
Outcome outcome_of(T& trainer, const Batch& batch, int seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  Outcome all;
  try {
    const Report report = trainer.step(batch);
    all.numbers = {report.mean(), report.outputs,
                   at::tensor({report.count(), report.learning_rate,
                               report.grad_norm().value_or(0), report.skipped() ? 1.0 : 0.0},
                              at::kDouble)};
  } catch (const Error& error) {
    all.error = error.what();
  }
  all.state = state_of(trainer);
  return all;
}

/// Returns what differs, in words; empty if nothing does.
inline std::string difference(const Outcome& a, const Outcome& b) {
  if (a.error != b.error) return "one error is `" + a.error + "`, the other `" + b.error + "`";
  if (!test::same_bits(a.numbers, b.numbers)) return "the reports differ";
  if (a.state.size() != b.state.size()) return "the states have different names";
  for (const auto& [name, t] : a.state)
    if (b.state.count(name) == 0 || !test::same_bits(t, b.state.at(name))) return name;
  return {};
}

/// Something that happens before a step: to the trainer, and to the batch.
template <class T>
void before_step(T& trainer, Rows& batch, int i) {
  auto& core = ikebana::detail::CoreOf<T>::of(trainer);
  auto frozen = [&] { return ikebana::detail::module_of(trainer.model())->parameters()[0]; };
  switch (i % 24) {
    case 7:
      if constexpr (requires { core.mechanisms.optimizer.values.lr; })
        core.mechanisms.optimizer.values.lr *= 0.5;
      break;
    case 9: trainer.restore(state_of(trainer)); break;
    case 10: frozen().requires_grad_(false); break;
    case 15: frozen().requires_grad_(true); break;
    case 16: batch.input = batch.input.clone(), batch.input[0][0] = std::numeric_limits<float>::quiet_NaN(); break;
    case 18:
    case 19:
    case 20: batch = {batch.input.narrow(0, 0, 7), batch.target.narrow(0, 0, 7)}; break;
    case 22: trainer.evaluate(std::vector<Rows>{batch}); break;
    default: break;
  }
}

/// Checks that `steps` steps under Capture<WholeStep> are the steps without it, to the bit, and
/// that most were replayed.
template <class Model, class... Policies>
void check_captured(const std::string& name, int steps, const Policies&... policies) {
  CAPTURE(name);
  Trainer<Model, Policies...> eager(seeded([] { return Model(); }), policies...);
  Trainer<Model, Policies..., Capture<WholeStep>> captured(seeded([] { return Model(); }),
                                                           policies...);
  const auto& capture = captured.template mechanism<Capture<WholeStep>>();
  std::int64_t copies = 0, unplanned = 0;
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    Rows a = recorded_batch(i), b = a;
    before_step(eager, a, i), before_step(captured, b, i);
    REQUIRE(difference(outcome_of(captured, b, i), outcome_of(eager, a, i)) == "");
    for (const auto& tape : capture.tapes().all())
      if (tape->is_ready())
        copies = std::max(copies, tape->tape().copies()),
        unplanned = std::max(unplanned, tape->tape().unplanned());
  }
  MESSAGE(name << ": " << capture.replays() << " replays, " << capture.recordings() << " recordings, copies " << copies << ", unplanned " << unplanned);
  CHECK(copies == 0);
  CHECK(unplanned == 0);
  CHECK(capture.replays() >= steps / 3);
}

}  // namespace guarantees
