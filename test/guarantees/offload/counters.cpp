// Tests that Offload counts what it moves to the byte: what is saved, once each way, and nothing
// else.
#include "offload.hpp"

namespace guarantees::offload::counters {

/// A checkpoint moves only what it keeps: under Segments, hooks inside of a frame would move what
/// is to be dropped, and no bit would tell.
template <class Word, class Number>
void moves_what_is_kept() {
  INFO(ikebana::detail::type_name<Choices<Word, Number>>());
  each_kind([](Kind kind) {
    const Moved here = zoo_steps(kind, Word{}, Number{}, CountsSaved{});
    const Moved away = zoo_steps(kind, Word{}, Number{}, moving<Activations_>());
    CHECK(test::same_bits(away.trace, here.trace));
    for (std::size_t step = 0; step < here.traffic.size(); ++step) {
      const OffloadTraffic &moved = away.traffic[step].value(), &saved = here.traffic[step].value();
      // A gradient within the loss runs a backward, in which a selective checkpoint computes its
      // units again for operators that are to be differentiated: it keeps results once more.
      const bool again = kind == Kind::Penalty && std::is_same_v<Word, Checkpoint<Selective>>;
      if (again) CHECK(moved.activations_out >= saved.activations_out);
      else CHECK(moved.activations_out == saved.activations_out);
      if (again) CHECK(moved.copies_out >= saved.copies_out);
      else CHECK(moved.copies_out == saved.copies_out);
      CHECK(moved.activations_out > 0);
      CHECK(moved.parameters_back == 0);
      CHECK(moved.gradients_out == 0);
      if (kind == Kind::Penalty || kind == Kind::Inside) continue;  // what two backwards use comes
      CHECK(moved.activations_back <= moved.activations_out);       // back for each
      CHECK(moved.peak_stored == moved.activations_out);
    }
  });
}

TEST_CASE("offload moves what each checkpoint keeps, and no more") {
  Choices<Checkpoint<Off>, Checkpoint<Full>, Checkpoint<Selective>, Checkpoint<Every<2>>,
          Checkpoint<Segments<2>>>::each([]<class Word>(const std::string&) {
    moves_what_is_kept<Word, Precision<FP32>>();
  });
  moves_what_is_kept<Checkpoint<Off>, Precision<BF16>>();
  moves_what_is_kept<Checkpoint<Segments<2>>, Precision<FP16>>();
}

/// This holds from the first step on, also if units gather their parameters.
TEST_CASE("offload moves the same where parameters are gathered, in every step") {
  each_kind([](Kind kind) {
    const Moved here = zoo_steps(kind, CountsSaved{});
    const Moved away = zoo_steps(kind, moving<Offload<CPU, Activations, Parameters>>());
    for (std::size_t step = 0; step < here.traffic.size(); ++step)
      CHECK(away.traffic[step]->activations_out == here.traffic[step]->activations_out);
  });
}

/// Returns the numbers of one step, counted by hand for two units and a head. Each has 6 rows in
/// and out. Only storages of at least 64 bytes count.
template <class Word>
OffloadTraffic of_a_chain() {
  return zoo_steps(Kind::Chain, Word{}, moving<Activations_>(/*min_bytes=*/64)).last();
}
TEST_CASE("offload moves the inputs of checkpointed units and what the root saves") {
  constexpr std::int64_t rows = 6 * width * 4, scores = 6 * classes * 4;
  const OffloadTraffic full = of_a_chain<Checkpoint<Full>>();
  CHECK(full.copies_out == 3);  // the second unit's input, the head's, the logarithm of a softmax
  CHECK(full.activations_out == 2 * rows + scores);
  CHECK(full.copies_back == 3);
  CHECK(full.activations_back == 2 * rows + scores);
  CHECK(full.peak_stored == 2 * rows + scores);
  const OffloadTraffic segments = of_a_chain<Checkpoint<Segments<2>>>();  // one, whose input is the
  CHECK(segments.copies_out == 2);                                        // batch
  CHECK(segments.activations_out == rows + scores);
  CHECK(segments.activations_back == rows + scores);
  CHECK(of_a_chain<Checkpoint<Off>>().copies_out > 3);
}

/// No units. `first` and `last` are parameters that are saved as they are and transposed.
struct WavesImpl : torch::nn::Module {
  torch::nn::Linear first{8, 16}, last{16, 4};
  WavesImpl() { register_module("first", first), register_module("last", last); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = first(batch.input);                    // saves the batch and the weight
    const at::Tensor z = at::sin(y) * at::cos(y);               // y twice, and both results
    const at::Tensor out = last(z);                             // z, and the weight
    return {(out * batch.target).sum(), batch.target.size(0)};  // the batch
  }
};
TORCH_MODULE(Waves);
std::vector<Rows> wave_batches() {
  torch::manual_seed(5);
  std::vector<Rows> batches;
  for (int i = 0; i < 3; ++i) batches.push_back({torch::randn({10, 8}), torch::randn({10, 4})});
  return batches;
}
template <class... Policies>
Moved waves(const Policies&... policies) {
  return steps_of(seeded([] { return Waves(); }), wave_batches(), policies...);
}

TEST_CASE(
    "offload moves a tensor that is saved twice once each way; parameters and batches never") {
  constexpr std::int64_t wave = 10 * 16 * 4;
  const Moved without = waves(), with = waves(moving<Activations_>());
  CHECK(test::same_bits(with.trace, without.trace));
  CHECK_FALSE(without.traffic[0].has_value());
  for (const auto& traffic : with.traffic) {
    CHECK(traffic->copies_out == 4);
    CHECK(traffic->copies_back == 4);
    CHECK(traffic->activations_out == 4 * wave);
    CHECK(traffic->activations_back == 4 * wave);
    CHECK(traffic->peak_stored == 4 * wave);
  }
  CHECK(waves(moving<Activations_>(wave)).last().copies_out == 4);
  CHECK(waves(moving<Activations_>(wave + 1)).last().copies_out == 0);  // what is small stays
  const Moved parts = waves(Accumulate<2>{}, moving<Activations_>());
  CHECK(parts.last().copies_out == 8);
  CHECK(parts.last().activations_back == 4 * wave);
  CHECK(parts.last().peak_stored == 2 * wave);  // one microbatch at a time
}

/// The bytes belong to all parameters, to a unit, and to the root itself.
TEST_CASE("offload counts what of parameters comes, and all gradients") {
  const auto data = [] { return zoo_batches(); };
  const auto net = [] { return zoo(Kind::Twice); };
  std::int64_t all = 0, block = 0, head = 0;
  for (const auto& p : net()->parameters()) all += static_cast<std::int64_t>(p.nbytes());
  for (const auto& p : net()->a->parameters()) block += static_cast<std::int64_t>(p.nbytes());
  for (const auto& p : net()->head->parameters()) head += static_cast<std::int64_t>(p.nbytes());
  // a, b, a, b: each is gathered for each use, forward and backward, but the last one stays. The
  // root's come once.
  const Moved visits = steps_of(net(), data(), moving<Offload<CPU>>());
  for (const auto& traffic : visits.traffic) {
    CHECK(traffic->parameters_back == 7 * block + head);
    CHECK(traffic->gradients_out == 4 * block + head);
    CHECK(traffic->activations_out == 0);
  }
  // Copies that stay: all new master weights, once a step.
  const Moved stay = steps_of(net(), data(), moving<Offload<CPU, OptimizerState>>());
  for (const auto& traffic : stay.traffic) {
    CHECK(traffic->parameters_back == all);
    CHECK(traffic->gradients_out == 4 * block + head);
  }
}

/// The next step counts only itself, whatever was computed in between.
template <class Policy>
void counts_steps_alone() {
  INFO(ikebana::detail::type_name<Policy>());
  Trainer undisturbed{zoo(Kind::Chain), AdamW{.lr = 1e-2}, moving<Policy>()};
  Trainer trainer{zoo(Kind::Chain), AdamW{.lr = 1e-2}, moving<Policy>()};
  for (const Rows& batch : zoo_batches()) {
    const StateDict state = trainer.state();
    trainer.evaluate(zoo_batches());
    trainer.with_full_weights([](Zoo&) {});
    trainer.restore(state);
    const Numbers moved = numbers(trainer.step(batch));
    torch::manual_seed(1);
    CHECK(moved == numbers(undisturbed.step(batch)));
    CHECK(moved[4] > 0);
  }
}
TEST_CASE("offload counts nothing of an evaluation, of full weights and of a restored state") {
  counts_steps_alone<Offload<CPU>>();
  counts_steps_alone<Activations_>();
  counts_steps_alone<Offload<Disk, Activations, OptimizerState>>();
}

}  // namespace guarantees::offload::counters
