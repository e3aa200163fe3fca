#pragma once
// Records one step of a recipe and replays it, beside two trainers that step.
#include "tape.hpp"

#include <ikebana/modules/attention.hpp>

namespace guarantees {

constexpr std::int64_t recorded_width = 16, recorded_rows = 12, recorded_classes = 7;

/// A block of a transformer, whose batch is one sequence.
struct RecordedBlockImpl : torch::nn::Module {
  torch::nn::Linear mix{recorded_width, 3 * recorded_width}, up{recorded_width, 32},
      down{32, recorded_width};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({recorded_width})};
  torch::nn::Dropout drop{0.2};
  RecordedBlockImpl() {
    register_module("mix", mix), register_module("up", up), register_module("down", down);
    register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto q = mix(norm(x)).view({1, x.size(0), 3, 2, -1}).permute({2, 0, 3, 1, 4}).unbind();
    const at::Tensor mixed = modules::attention(q[0], q[1], q[2], {.is_causal = true});
    const at::Tensor y = x + drop(mixed.transpose(1, 2).reshape(x.sizes()));
    return y + drop(down(at::gelu(up(y))));
  }
};
TORCH_MODULE(RecordedBlock);

/// A net with batch norm's statistics, and for an objective.
struct RecordedNetImpl : torch::nn::Module {
  using units = Units<RecordedBlock>;
  torch::nn::Linear in{torch::nn::LinearOptions(recorded_width, recorded_width).bias(false)},
      head{recorded_width, recorded_classes};
  RecordedBlock first, second;
  torch::nn::BatchNorm1d batch_norm{recorded_width};
  RecordedNetImpl() {
    register_module("in", in), register_module("head", head);
    register_module("first", first), register_module("second", second);
    register_module("batch_norm", batch_norm);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return head(run(second, run(first, batch_norm(in(x)))));
  }
};
TORCH_MODULE(RecordedNet);

/// This net also has a count on the device that only the loss knows.
struct LateNetImpl : RecordedNetImpl {
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor kept = batch.target != -100;
    return {at::cross_entropy_loss(forward(run, batch.input), batch.target, {}, at::Reduction::Sum),
            kept.sum()};
  }
};
TORCH_MODULE(LateNet);

/// A number of targets that differs from batch to batch is ignored.
inline Rows recorded_batch(int step) {
  torch::manual_seed(static_cast<std::uint64_t>(40 + step));
  Rows batch{torch::randn({recorded_rows, recorded_width}),
             torch::randint(recorded_classes, {recorded_rows}, at::kLong)};
  batch.target.narrow(0, 0, step % 4).fill_(-100);
  return batch;
}

template <class Model, class... Policies>
class Stepped {
 public:
  using Recipe = typename Trainer<Model, Policies...>::Recipe;
  using Core = ikebana::Core<Model, Recipe>;

  explicit Stepped(const Policies&... policies)
      : core(std::make_shared<Core>(seeded([] { return Model(); }),
                                    ikebana::detail::Values<Policies...>(policies...))) {}
  Report step(int i, const Rows& batch) {
    torch::manual_seed(static_cast<std::uint64_t>(i));
    return ikebana::step(*core, batch);
  }
  Report step(int i) { return step(i, recorded_batch(i)); }
  Report recorded_step(int i) {
    ikebana::detail::RecordingScope recording;
    return step(i);
  }
  /// Returns everything that a step leaves: parameters, buffers, state.
  StateDict state() {
    StateDict dict;
    Archive archive(dict, Archive::Mode::Save);
    core->state(archive);
    for (auto& [name, t] : dict) t = t.clone();
    return dict;
  }
  void allow_all(Tape& tape) {
    core->mechanisms.each([&](auto& mechanism) {
      ikebana::detail::each_number(mechanism, [&](const at::Tensor& t) { tape.allow_number(t); });
    });
    StateDict dict;
    Archive archive(dict, Archive::Mode::Save);
    core->state(archive);
    for (auto& [name, t] : dict) tape.allow(t);
    for (const Unit& unit : core->units.units())
      for (const at::Tensor& p : unit.parameters) tape.allow(p);
    for (const at::Tensor& p : core->parameters.masters().values) tape.allow(p);
    for (const at::Tensor& b : core->units.units()[0].module->buffers()) tape.allow(b);
  }
  void set_numbers() {
    const StepRate rate(core->mechanisms.schedule, core->step.attempts);
    core->mechanisms.each([&](auto& mechanism) { ikebana::detail::set_numbers(mechanism, rate); });
  }

  std::shared_ptr<Core> core;
};

/// A trainer whose third step is recorded on a tape. Further steps are replays.
template <class Model, class... Policies>
class Replayed : public Stepped<Model, Policies...> {
 public:
  using Stepped<Model, Policies...>::Stepped;

  void record(int i) {
    batch_ = recorded_batch(i);
    tape.allow(batch_.input), tape.allow(batch_.target);
    this->allow_all(tape);
    torch::manual_seed(static_cast<std::uint64_t>(i));
    tape.record([&] { report = ikebana::step(*this->core, batch_); });
    checks = this->core->step.deferred.take_recorded();
    if (!tape.problems().empty()) return;
    tape.keep(report.value.parts[0].sum);
    for (const auto& check : checks) tape.keep(check.flag);
  }
  /// Raises the error of the replayed step, if there is one.
  void replay(int i, const Rows& batch) {
    batch_.input.copy_(batch.input), batch_.target.copy_(batch.target);
    torch::manual_seed(static_cast<std::uint64_t>(i));
    this->set_numbers();
    tape.replay();
    for (auto& check : checks)
      if (tape.replayed(check.flag).item<float>() != 0) check.raise();
    this->core->mechanisms.each([](auto& mechanism) { ikebana::detail::end_replay(mechanism); });
    ++this->core->step.attempts;
  }

  Tape tape;
  Report report;
  std::vector<ikebana::detail::DeferredCheck::Recorded> checks;

 private:
  Rows batch_;
};

/// Checks for one recipe that nothing that a recorded step reads is frozen, and that a replay with
/// another batch is the step that follows. After the recorded step the parameters differ from the
/// parameters after an ordinary one by no more than `bound` of the largest. If that is 0, no bit
/// differs, in further steps either.
template <class Model, class... Policies>
void check_recording(const std::string& name, double bound, const Policies&... policies) {
  CAPTURE(name);
  Stepped<Model, Policies...> ordinary(policies...), dispatched(policies...);
  Replayed<Model, Policies...> recorded(policies...);
  for (int i = 0; i < 2; ++i) ordinary.step(i), dispatched.step(i), recorded.step(i);
  recorded.record(2), dispatched.recorded_step(2), ordinary.step(2);
  CHECK(recorded.tape.problems() == "");
  CHECK(recorded.checks.size() > 0);
  CHECK(test::same_state(recorded.state(), dispatched.state()));
  const auto& masters = dispatched.core->parameters.masters().values;
  CHECK(test::worst_relative(masters, ordinary.core->parameters.masters().values) <= bound);
  for (int i = 3; i < 6; ++i) {
    const at::Tensor sum = dispatched.recorded_step(i).value.parts[0].sum;
    recorded.replay(i, recorded_batch(i)), ordinary.step(i);
    CHECK(test::same_bits(recorded.tape.replayed(recorded.report.value.parts[0].sum), sum));
    CHECK(test::same_state(recorded.state(), dispatched.state()));
  }
  if (bound == 0) CHECK(test::same_state(ordinary.state(), dispatched.state()));
}

}  // namespace guarantees
