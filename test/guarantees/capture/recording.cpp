// A step may be recorded: while it is, the host reads no number, and every operator reads only what
// the operators before it made, or what outlives a step.
#include "own_momentum.hpp"
#include "recorded.hpp"

namespace guarantees::recording {

/// An optimizer as an author of policies writes it, for whom a recorded step is no secret.
struct OwnSGD {
  using axis = ikebana::axis::optimizer;
  double lr = 0.1;
};

}  // namespace guarantees::recording

template <>
struct ikebana::Mechanism<guarantees::recording::OwnSGD> : ikebana::OptimizerHooks {
  guarantees::recording::OwnSGD values;
  at::Tensor lr = at::zeros({}, at::kDouble);

  explicit Mechanism(guarantees::recording::OwnSGD v) : values(v) {}
  double base_lr() const { return values.lr; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    set_numbers(rate);
  }
  void update(const Masters& masters, StepGradients& gradients) {
    for (std::size_t k = 0; k < gradients.indices.size(); ++k)
      masters.values[gradients.indices[k]].sub_(gradients.values[k] * lr);
  }
  template <class Visit>
  void each_number(const Visit& visit) {
    visit(lr);
  }
  template <class Rate>
  void set_numbers(const Rate& rate) {
    *lr.data_ptr<double>() = rate(values.lr);
  }
};

namespace guarantees::recording {

template <class... Policies>
void check(const std::string& name, double bound, const Policies&... policies) {
  check_recording<RecordedNet>(name, bound, CrossEntropyLoss{}, policies...);
}
constexpr double exact = 0;

TEST_CASE("recording: a recorded step reads nothing frozen, and its replay is the next step") {
  const Group own{
      .match = named("first.*"), .betas = {{0.8, 0.9}}, .schedule = StepLR{.step_size = 1}};
  check("cosine, clip, accumulate", exact, AdamW{.lr = 0.01, .groups = {own}},
        CosineAnnealingLR{.T_max = 10}, ClipGradNorm{.max_norm = 0.1}, Accumulate<3>{});
  check("Full", exact, SGD{.lr = 0.01, .momentum = 0.9}, GradNorm{}, Checkpoint<Full>{});
  check("Selective", exact, Adagrad{}, Checkpoint<Selective>{}, Precision<BF16>{});
  check("FP16", exact, AdamW{.lr = 0.01}, Precision<FP16>{.growth_interval = 2}, ClipGradNorm{},
        Accumulate<3>{});
  check("BF16Weights", exact, AdamW{.lr = 0.01}, Precision<BF16Weights>{},
        Checkpoint<Segments<2>>{});
  check("BF16True", exact, AdamW{.lr = 0.01}, Precision<BF16True>{}, GradNorm{});
  check("EMA", exact, AdamW{.lr = 0.01}, EMA{.decay = 0.9, .use_buffers = true},
        Freeze<>{.match = named("in.*")});
  check("FP8", exact, Adam{}, Precision<FP8>{DelayedScaling{.amax_history_len = 3}});
}

// The operators round after each of their passes, and the loops on the host round once for all.
TEST_CASE("recording: optimizers that compute on the host take LibTorch's operators") {
  check("Lion", 1e-5, Lion{.lr = 0.001, .weight_decay = 0.1}, ClipGradNorm{.max_norm = 0.1});
  check("Muon", 1e-5, Muon{.lr = 0.01, .groups = {{.match = named("first.*"), .lr = 0.02}}},
        CosineAnnealingLR{.T_max = 10});
  check("Adafactor", 1e-5, Adafactor{});
  check("AdamW8bit", 1e-5, AdamW8bit{.lr = 0.01, .block_size = 16, .min_8bit_size = 64});
  check("Combined", 1e-5, Combined<Muon, Lion>{});
}

TEST_CASE("recording: a count that only the loss knows, on the device") {
  check_recording<LateNet>("accumulated", exact, AdamW{.lr = 0.01}, Accumulate<3>{},
                           ClipGradNorm{.max_norm = 0.1});
  check_recording<LateNet>("at once", exact, AdamW{.lr = 0.01});
}

/// In BFloat16, for which LibTorch's fused SGD is wrong on a CPU.
struct HalfNetImpl : torch::nn::Module {
  torch::nn::Linear in{recorded_width, 32}, head{32, recorded_classes};
  HalfNetImpl() {
    register_module("in", in), register_module("head", head);
    to(at::kBFloat16);
  }
  at::Tensor forward(const at::Tensor& x) { return head(at::relu(in(x.to(at::kBFloat16)))); }
};
TORCH_MODULE(HalfNet);

TEST_CASE("recording: SGD without a fused operator") {
  const SGD sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true};
  // LibTorch's add_ rounds the rate to BFloat16 first; the operators of a recorded step do not.
  check_recording<HalfNet>("SGD of BFloat16", 0x1p-7, CrossEntropyLoss{}, sgd);
}

TEST_CASE("recording: SGD without a fused operator undoes a replay that is rejected") {
  Replayed<HalfNet, CrossEntropyLoss, SGD> trainer({}, SGD{.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  trainer.record(2);
  trainer.replay(3, recorded_batch(3));
  const StateDict before = trainer.state();
  Rows bad = recorded_batch(4);
  bad.input[0][0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(trainer.replay(4, bad), NonFinite);
  const StateDict after = trainer.state();
  for (const auto& [name, t] : before)
    if (!test::contains(name, "generator")) {
      CAPTURE(name);
      CHECK(test::same_bits(t, after.at(name)));
    }
}

TEST_CASE("recording: an optimizer of one's own that lists its numbers") {
  check("OwnSGD", exact, OwnSGD{}, CosineAnnealingLR{.T_max = 10}, ClipGradNorm{});
}

TEST_CASE("recording: values of optimizers that change between steps are those of a replay") {
  using Both = Combined<Muon, Lion>;
  Stepped<RecordedNet, CrossEntropyLoss, Both> dispatched({}, {});
  Replayed<RecordedNet, CrossEntropyLoss, Both> recorded({}, {});
  for (int i = 0; i < 2; ++i) dispatched.step(i), recorded.step(i);
  dispatched.recorded_step(2), recorded.record(2);
  for (auto* core : {dispatched.core.get(), recorded.core.get()}) {
    Both& values = core->mechanisms.optimizer.values;
    values.first.lr = 0.02, values.rest.lr = 0.003;
  }
  dispatched.recorded_step(3), recorded.replay(3, recorded_batch(3));
  CHECK(test::same_state(recorded.state(), dispatched.state()));
}

TEST_CASE("recording: a replay whose numbers but the learning rate have changed throws") {
  Replayed<RecordedNet, CrossEntropyLoss, AdamW> recorded({}, {});
  for (int i = 0; i < 2; ++i) recorded.step(i);
  recorded.record(2);
  AdamW& values = recorded.core->mechanisms.optimizer.values;
  auto refused = [&] {
    const std::string text = test::message_of<BadValue>([&] { recorded.set_numbers(); });
    return test::contains(text, "this step is a replay of a recorded one");
  };
  values.lr = 0.02;
  CHECK_FALSE(refused());
  values.eps = 1e-6;
  CHECK(refused());
  values.eps = AdamW{}.eps, values.betas[0] = 0.8;
  CHECK(refused());
  values.betas = AdamW{}.betas, values.weight_decay = 0;
  CHECK(refused());
  values.weight_decay = AdamW{}.weight_decay;
  CHECK_FALSE(refused());
}

TEST_CASE("recording: a replay rejects a batch that has no finite loss, and its check raises") {
  Replayed<RecordedNet, CrossEntropyLoss, AdamW, EMA> trainer({}, {}, {});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  trainer.record(2);
  trainer.replay(3, recorded_batch(3));
  const StateDict before = trainer.state();
  Rows bad = recorded_batch(4);
  bad.input[0][0] = std::numeric_limits<float>::quiet_NaN();
  const std::string text = test::message_of<NonFinite>([&] { trainer.replay(4, bad); });
  CHECK(test::contains(text, "the loss is not finite"));
  Rows ignored = recorded_batch(5);
  ignored.target.fill_(-100);
  const std::string uncounted = test::message_of<BadBatch>([&] { trainer.replay(5, ignored); });
  CHECK(test::contains(uncounted, "count is not above 0"));
  int compared = 0;
  for (const auto& [name, t] : trainer.state())
    if (test::contains(name, "ikebana.AdamW.") || test::contains(name, "ikebana.EMA.")) {
      CAPTURE(name);
      CHECK(test::same_bits(t, before.at(name)));
      ++compared;
    }
  CHECK(compared > 40);
}

TEST_CASE("recording: without the scope a tape freezes what the host computes") {
  Stepped<RecordedNet, CrossEntropyLoss, AdamW, ClipGradNorm> trainer({}, {}, {});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  Tape tape;
  const Rows batch = recorded_batch(2);
  tape.allow(batch.input), tape.allow(batch.target);
  trainer.allow_all(tape);
  tape.record_without_scope([&] { trainer.step(2, batch); });
  CHECK(test::contains(tape.problems(), "that no operator of the step makes"));
  CHECK(trainer.core->step.deferred.take_recorded().empty());
}

/// Its loss reads a number of the batch.
struct ReadingNetImpl : RecordedNetImpl {
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const double factor = batch.input[0][0].item<double>();
    return {forward(run, batch.input).sum() * factor, batch.target.numel()};
  }
};
TORCH_MODULE(ReadingNet);

TEST_CASE("recording: a number that the model reads on the host is found") {
  Replayed<ReadingNet, AdamW> trainer(AdamW{});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  trainer.record(2);
  CHECK(test::contains(trainer.tape.problems(),
                       "`aten::_local_scalar_dense`, in forward, gives the host a number"));
}

/// Returns the error of a recorded step, after `before` ordinary ones.
template <class Model, class... Policies>
std::string refused(int before, const Policies&... policies) {
  Stepped<Model, Policies...> trainer(policies...);
  for (int i = 0; i < before; ++i) trainer.step(i);
  torch::manual_seed(static_cast<std::uint64_t>(before));  // as the step does
  const StateDict state = trainer.state();
  std::string text = test::message_of<Error>([&] { trainer.recorded_step(before); });
  CHECK(test::same_state(trainer.state(), state));
  trainer.step(before);
  return text;
}

TEST_CASE("recording: what cannot be recorded throws, and changes nothing") {
  const CrossEntropyLoss loss;
  auto own = refused<RecordedNet>(2, loss, test::OwnMomentum{.lr = 0.01});
  CHECK(test::contains(own, "OwnMomentum`: a step with it cannot be recorded"));
  auto in_backward = refused<RecordedNet>(2, loss, InBackward<AdamW>{});
  CHECK(test::contains(in_backward, "`InBackward<AdamW>`: a step with it cannot be recorded"));
  auto sparse = refused<RecordedNet>(2, loss, SparseAdam{});
  CHECK(test::contains(sparse, "`SparseAdam`: a step with it cannot be recorded"));
  CHECK(test::contains(refused<RecordedNet>(0, loss, AdamW{}), "makes or sorts its state"));
  CHECK(test::contains(refused<RecordedNet>(1, loss, AdamW{}), "makes or sorts its state"));
}

TEST_CASE("recording: an average does not begin in a recorded step") {
  Stepped<RecordedNet, CrossEntropyLoss, AdamW, EMA> trainer({}, {}, {});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  trainer.core->mechanisms.average.restart();
  const std::string text = test::message_of<BadValue>([&] { trainer.recorded_step(2); });
  CHECK(test::contains(text, "EMA: this step is the first"));
  trainer.step(2), trainer.step(3);
  CHECK_NOTHROW(trainer.recorded_step(4));
}

TEST_CASE("recording: the lengths of a Ragged are numbers of the host") {
  const Ragged ragged(std::vector<at::Tensor>{at::ones({2}), at::ones({3})});
  ikebana::detail::RecordingScope recording;
  CHECK(test::contains(test::message_of<BadBatch>([&] { ragged.lengths(); }), "is recorded"));
  CHECK(test::contains(test::message_of<BadBatch>([&] { (void)ragged[0]; }), "is recorded"));
  CHECK(ragged.size() == 2);
}

TEST_CASE("recording: a scope restores what was before it") {
  using ikebana::detail::recording, ikebana::detail::RecordingScope;
  CHECK_FALSE(recording());
  {
    RecordingScope outer;
    {
      RecordingScope inner;
    }
    CHECK(recording());
    CHECK_FALSE(ikebana::detail::readable(at::ones({})));
  }
  CHECK_FALSE(recording());
  CHECK(ikebana::detail::readable(at::ones({})));
}

}  // namespace guarantees::recording
