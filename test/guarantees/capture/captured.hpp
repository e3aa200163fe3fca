#pragma once
// Steps a recipe with Capture beside the same recipe without it, through what happens to
// a training, and compares every bit.
#include "recorded.hpp"

#include <ikebana/capture.hpp>
#include <limits>

namespace guarantees {

/// The numbers that a step reports, the state that it leaves, and the error that it throws.
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
                   at::tensor({report.count(), report.learning_rate, report.grad_norm().value_or(0),
                               report.skipped() ? 1.0 : 0.0},
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
    case 9:
      trainer.restore(state_of(trainer));
      break;
    case 10:
      frozen().requires_grad_(false);
      break;
    case 15:
      frozen().requires_grad_(true);
      break;
    case 16:
      batch.input = batch.input.clone(),
      batch.input[0][0] = std::numeric_limits<float>::quiet_NaN();
      break;
    case 18:
    case 19:
    case 20:
      batch = {batch.input.narrow(0, 0, 7), batch.target.narrow(0, 0, 7)};
      break;
    case 22:
      trainer.evaluate(std::vector<Rows>{batch});
      break;
    default:
      break;
  }
}

/// Calls `f(tape)` for each tape that is replayed.
template <class F>
void each_tape(const Mechanism<Capture<WholeStep>>& capture, const F& f) {
  for (const auto& tape : capture.tapes().all())
    if (tape->is_ready()) f(*tape->tape());
}
template <class F>
void each_tape(const Mechanism<Capture<EachUnit>>& capture, const F& f) {
  for (const auto& unit : capture.units())
    for (const auto& tape : unit.tapes.all())
      if (tape->is_ready()) f(*tape->tape());
}

/// Checks that `steps` steps under Capture<What> are the steps without it, to the bit, and that
/// most were replayed.
template <class Model, class What = WholeStep, class... Policies>
void check_captured(const std::string& name, int steps, const Policies&... policies) {
  CAPTURE(name);
  Trainer<Model, Policies...> eager(seeded([] { return Model(); }), policies...);
  Trainer<Model, Policies..., Capture<What>> captured(seeded([] { return Model(); }), policies...);
  const auto& capture = captured.template mechanism<Capture<What>>();
  std::int64_t copies = 0, unplanned = 0;
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    Rows a = recorded_batch(i), b = a;
    before_step(eager, a, i), before_step(captured, b, i);
    REQUIRE(difference(outcome_of(captured, b, i), outcome_of(eager, a, i)) == "");
    each_tape(capture, [&](const auto& tape) {
      copies = std::max(copies, tape.copies()), unplanned = std::max(unplanned, tape.unplanned());
    });
  }
  CHECK(copies == 0);
  CHECK(unplanned == 0);
  CHECK(capture.replays() >= steps / 3);
}

constexpr std::int64_t body_width = 8;

/// A unit whose body the test supplies.
struct BodyImpl : torch::nn::Module {
  using Function = std::function<at::Tensor(BodyImpl&, const at::Tensor&)>;
  at::Tensor weight = register_parameter("weight", torch::rand({body_width}) + 0.5);
  at::Tensor buffer = register_buffer("buffer", torch::full({body_width}, 0.25));
  at::Tensor loose = torch::full({body_width}, 2.0);  // is not registered
  torch::nn::Linear linear{body_width, body_width};
  torch::nn::Dropout drop{0.3};
  int calls = 0;
  Function body;
  explicit BodyImpl(Function b) : body(std::move(b)) {
    register_module("linear", linear), register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return body(*this, x); }
};
TORCH_MODULE(Body);

/// A net of such a unit, whose loss the test supplies as well.
struct BodyNetImpl : torch::nn::Module {
  using units = Units<Body>;
  using Ending = std::function<Loss(BodyNetImpl&, const at::Tensor&, const Rows&)>;
  torch::nn::Linear in{body_width, body_width};
  Body body;
  Ending ending;
  BodyNetImpl(BodyImpl::Function f, Ending e) : body(std::move(f)), ending(std::move(e)) {
    register_module("in", in), register_module("body", body);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    return ending(*this, run(body, in(batch.input)), batch);
  }
};
TORCH_MODULE(BodyNet);

inline at::Tensor usual_body(BodyImpl& self, const at::Tensor& x) {
  return at::tanh(self.linear(x * self.weight));
}
inline Loss usual_ending(BodyNetImpl&, const at::Tensor& y, const Rows& batch) {
  return {.sum = (y * y).sum(), .count = batch.input.size(0), .outputs = y};
}
inline Rows body_batch(int step, std::int64_t rows = 5) {
  torch::manual_seed(static_cast<std::uint64_t>(70 + step));
  return {torch::randn({rows, body_width}), torch::randint(3, {rows}, at::kLong)};
}

/// A trainer with Capture<What> beside one without it.
template <class What, class Model, class... Policies>
struct ComparedWith {
  using Eager = Trainer<Model, Policies...>;
  using Captured = Trainer<Model, Policies..., Capture<What>>;
  Eager eager;
  Captured captured;
  std::string error;  // the error of the last step
  explicit ComparedWith(const Policies&... policies)
      : eager(seeded([] { return Model(); }), policies...),
        captured(seeded([] { return Model(); }), policies...) {}
  ComparedWith()
    requires(sizeof...(Policies) > 0)
      : ComparedWith(Policies()...) {}

  /// Steps both, after `between(trainer, i)`. Returns false if the steps differ.
  template <class Batch, class Between>
  bool step(int i, const Batch& batch, const Between& between) {
    CAPTURE(i);
    between(captured, i);
    const Outcome now = outcome_of(captured, batch, i);
    between(eager, i);
    const std::string text = difference(now, outcome_of(eager, batch, i));
    CHECK(text == "");
    error = now.error;
    return text.empty();
  }
  auto& capture() { return captured.template mechanism<Capture<What>>(); }
  std::int64_t replays() { return capture().replays(); }
};
template <class Model, class... Policies>
using Compared = ComparedWith<WholeStep, Model, Policies...>;

inline constexpr auto nothing = [](auto&, int) {};

}  // namespace guarantees
