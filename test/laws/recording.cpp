// A step may be recorded: while it is, the host reads no number, and every operator reads only what
// the operators before it made, or what outlives a step.
#include "own_momentum.hpp"
#include "recorded.hpp"

namespace laws::recording {

template <class... Policies>
void check(const std::string& name, double bound, const Policies&... policies) {
  check_recording<RecordedNet>(name, bound, CrossEntropyLoss{}, policies...);
}
constexpr double exact = 0;

TEST_CASE("recording: a recorded step reads nothing frozen, and its replay is the next step") {
  check("cosine, clip, accumulate", exact, AdamW{.lr = 0.01}, CosineAnnealingLR{.T_max = 10},
        ClipGradNorm{.max_norm = 0.1}, Accumulate<3>{});
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

// The operators round more often than the loops on the host. A step in BFloat16 rounds each element
// that these bring to the other side of a half to another value, 2^-8 of it apart.
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

TEST_CASE("recording: a replay rejects a batch that is not finite, and its check raises") {
  Replayed<RecordedNet, CrossEntropyLoss, AdamW, EMA> trainer({}, {}, {});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  trainer.record(2);
  trainer.replay(3, recorded_batch(3));
  CHECK_NOTHROW(trainer.check());
  const StateDict before = trainer.state();
  Rows bad = recorded_batch(4);
  bad.input[0][0] = std::numeric_limits<float>::quiet_NaN();
  trainer.replay(4, bad);
  CHECK(test::contains(test::message_of<NonFinite>([&] { trainer.check(); }), "is not finite"));
  for (const auto& [name, t] : trainer.state())
    if (test::contains(name, "AdamW/") || test::contains(name, "EMA/")) {
      CAPTURE(name);
      CHECK(test::same_bits(t, before.at(name)));
    }
}

TEST_CASE("recording: without the scope a tape freezes what the host computes") {
  Stepped<RecordedNet, CrossEntropyLoss, AdamW, ClipGradNorm> trainer({}, {}, {});
  for (int i = 0; i < 2; ++i) trainer.step(i);
  Tape tape;
  const Rows batch = recorded_batch(2);
  tape.allow(batch.input), tape.allow(batch.target);
  tape.record([&] { trainer.step(2, batch); });
  trainer.allow_all(tape);
  CHECK(test::contains(tape.problems(), "is made by no recorded operator"));
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
  CHECK(trainer.tape.problems() == "the host reads a number\n");
}

/// The error of a recorded step, after `before` ordinary ones.
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

}  // namespace laws::recording
