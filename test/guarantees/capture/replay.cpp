// Replays of models, modules and optimizers of many kinds.
#include "captured.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

namespace guarantees::replay {

template <class Model, class... Policies, class Batch>
void check(const std::string& name, std::int64_t replays, const Batch& make,
           const Policies&... policies) {
  CAPTURE(name);
  Compared<Model, Policies...> both(policies...);
  for (int i = 0; i < 12; ++i)
    if (!both.step(i, make(i), nothing)) return;
  CHECK(both.error == "");
  CHECK(both.replays() == replays);
}

at::Tensor numbers(int i, at::IntArrayRef shape) {
  torch::manual_seed(static_cast<std::uint64_t>(60 + i));
  return torch::randn(shape);
}
Rows sequences(int i) { return {numbers(i, {6, 5, 8}), torch::randint(8, {6, 5}, at::kLong)}; }
Rows images(int i) { return {numbers(i, {4, 3, 8, 8}), torch::randint(5, {4}, at::kLong)}; }

/// x * x, with a backward of its own.
struct Squared : torch::autograd::Function<Squared> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    context->saved_data["factor"] = 2.0;
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * x * context->saved_data["factor"].toDouble()};
  }
};

struct InnerImpl : torch::nn::Module {
  torch::nn::Linear linear{8, 8};
  torch::nn::Dropout drop{0.3};
  InnerImpl() { register_module("linear", linear), register_module("drop", drop); }
  at::Tensor forward(const at::Tensor& x) { return drop(Squared::apply(at::tanh(linear(x))) + x); }
};
TORCH_MODULE(Inner);

struct OuterImpl : torch::nn::Module {
  Inner one, two;
  torch::nn::Dropout drop{0.1};
  OuterImpl() {
    register_module("one", one), register_module("two", two), register_module("drop", drop);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return drop(run(two, run(one, x)));
  }
};
TORCH_MODULE(Outer);

struct NestedImpl : torch::nn::Module {
  using units = Units<Inner, Outer>;
  Outer a, b;
  torch::nn::Linear unused{8, 8};
  NestedImpl() {
    register_module("a", a), register_module("b", b), register_module("unused", unused);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor y = run(b, run(a, batch.input));
    return {y.square().sum(), batch.input.size(0), y};
  }
};
TORCH_MODULE(Nested);

TEST_CASE("capture: functions of autograd, nested units, and parameters without a gradient") {
  auto batch = [](int i) { return body_batch(i, 6); };
  check<Nested>("plain", 8, batch, AdamW{.lr = 0.01});
  check<Nested>("Full", 8, batch, AdamW{.lr = 0.01}, Checkpoint<Full>{});
  check<Nested>("Selective", 8, batch, AdamW{.lr = 0.01}, Checkpoint<Selective>{});
  check<Nested>("accumulated", 16, batch, SGD{.lr = 1e-4, .momentum = 0.9}, Checkpoint<Full>{},
                Accumulate<2>{});
}

/// Draws for negative numbers only, and after a product that Selective keeps and a write changes.
struct LateDrawImpl : torch::nn::Module {
  torch::nn::Linear linear{8, 8};
  LateDrawImpl() { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = linear(x);
    const at::Tensor read = y + 1;
    return at::rrelu(y.mul_(0.1).add_(x), 0.1, 0.3, true) + 0.1 * read;
  }
};
TORCH_MODULE(LateDraw);

struct LateNetImpl : torch::nn::Module {
  using units = Units<LateDraw>;
  LateDraw first, second;
  torch::nn::Dropout drop{0.2};
  LateNetImpl() {
    register_module("first", first), register_module("second", second);
    register_module("drop", drop);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor y = drop(run(second, run(first, batch.input)));
    return {y.square().sum(), batch.input.size(0), y};
  }
};
TORCH_MODULE(LateNet);

TEST_CASE("capture: a recompute draws in replays what it did not draw in the recorded steps") {
  auto positive_at_first = [](int i) {
    Rows batch = body_batch(i, 6);
    if (i < 6) batch.input = batch.input.abs() + 3;
    return batch;
  };
  const SGD sgd{.lr = 1e-4};
  check<LateNet>("plain", 8, positive_at_first, sgd);
  check<LateNet>("Full", 8, positive_at_first, sgd, Checkpoint<Full>{});
  check<LateNet>("Selective", 8, positive_at_first, sgd, Checkpoint<Selective>{});
  auto check_units = [&](const auto& checkpoint) {
    ComparedWith<EachUnit, LateNet, SGD, std::decay_t<decltype(checkpoint)>> both(sgd, checkpoint);
    for (int i = 0; i < 12; ++i) REQUIRE(both.step(i, positive_at_first(i), nothing));
    CHECK(both.error == "");
    CHECK(both.replays() == 16);
  };
  check_units(Checkpoint<Full>{}), check_units(Checkpoint<Selective>{});
}

/// A model without units.
struct RecurrentImpl : torch::nn::Module {
  torch::nn::Embedding embedding{8, 8};
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(8, 8).num_layers(2).dropout(0.2).batch_first(true)};
  torch::nn::GRU gru{torch::nn::GRUOptions(8, 8).bidirectional(true).batch_first(true)};
  torch::nn::RNN rnn{torch::nn::RNNOptions(16, 8).batch_first(true)};
  RecurrentImpl() {
    register_module("embedding", embedding), register_module("lstm", lstm);
    register_module("gru", gru), register_module("rnn", rnn);
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor x = embedding(batch.target) + batch.input;
    x = std::get<0>(lstm->forward(x)), x = std::get<0>(gru->forward(x));
    x = std::get<0>(rnn->forward(x));
    const at::Tensor logits = at::matmul(x, embedding->weight.t());  // tied
    return {at::cross_entropy_loss(logits.flatten(0, 1), batch.target.flatten(), {},
                                   at::Reduction::Sum),
            batch.target.numel(), logits};
  }
};
TORCH_MODULE(Recurrent);

TEST_CASE("capture: recurrent layers, an embedding and tied weights") {
  check<Recurrent>("recurrent", 8, sequences, AdamW{.lr = 0.01}, ClipGradNorm{.max_norm = 1});
  check<Recurrent>("accumulated", 26, sequences, AdamW{.lr = 0.01}, Accumulate<3>{});
}

struct ConvImpl : torch::nn::Module {
  torch::nn::Conv2d a{torch::nn::Conv2dOptions(3, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::Conv2d b{torch::nn::Conv2dOptions(8, 8, 3).stride(2).groups(2)};
  torch::nn::GroupNorm group{2, 8};
  torch::nn::Linear head{8, 5};
  torch::nn::Dropout2d drop{0.3};
  ConvImpl() {
    register_module("a", a), register_module("norm", norm), register_module("b", b);
    register_module("group", group), register_module("head", head), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(at::relu(norm(a(x))), 2);
    return head(at::adaptive_avg_pool2d(drop(group(b(x))), {1, 1}).flatten(1));
  }
};
TORCH_MODULE(Conv);

TEST_CASE("capture: convolutions and batch norm, in both layouts") {
  check<Conv>("contiguous", 8, images, CrossEntropyLoss{.outputs = true}, AdamW{.lr = 0.01});
  check<Conv>("channels last", 8, images, CrossEntropyLoss{.outputs = true}, AdamW{.lr = 0.01},
              Layout<ChannelsLast>{});
  check<Conv>("BF16", 8, images, CrossEntropyLoss{.outputs = true}, AdamW{.lr = 0.01},
              Layout<ChannelsLast>{}, Precision<BF16>{});
}

struct FourierImpl : torch::nn::Module {
  at::Tensor filter = register_parameter("filter", torch::randn({5, 2}));
  torch::nn::Linear in{8, 8};
  FourierImpl() { register_module("in", in); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor spectrum = at::fft_rfft(in(batch.input)) * at::view_as_complex(filter).conj();
    const at::Tensor y = at::fft_irfft(spectrum * c10::complex<double>(0.5, 1), 8);
    return {y.square().sum() + at::view_as_real(spectrum).abs().sum() + at::imag(spectrum).sum(),
            batch.input.size(0), y};
  }
};
TORCH_MODULE(Fourier);

TEST_CASE("capture: complex numbers") {
  check<Fourier>("fft", 8, [](int i) { return body_batch(i); }, SGD{.lr = 0.001, .momentum = 0.9});
}

/// Indexes by integers, whose shape does not depend on values.
struct IndexedImpl : torch::nn::Module {
  torch::nn::Linear in{8, 8};
  IndexedImpl() { register_module("in", in); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = in(batch.input), z = y.index({batch.target});
    const at::Tensor w = at::zeros({5, 8}).index_put({batch.target}, y, /*accumulate=*/true);
    return {z.square().sum() + w.square().sum(), batch.input.size(0), z};
  }
};
TORCH_MODULE(Indexed);

TEST_CASE("capture: integers as indices have a fixed shape") {
  check<Indexed>("index", 8, [](int i) { return body_batch(i); }, SGD{.lr = 0.01, .momentum = 0.9});
}

/// A decomposition whose failure is an error.
struct CholeskyImpl : torch::nn::Module {
  torch::nn::Linear in{8, 8};
  CholeskyImpl() { register_module("in", in); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = in(batch.input), a = at::mm(y.t(), y) + at::eye(8);
    return {at::linalg_cholesky(a * (batch.target[0] + 1)).sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Cholesky);

TEST_CASE("capture: an operator that only checks is called in replays") {
  Compared<Cholesky, SGD> both;
  for (int i = 0; i < 10; ++i) {
    Rows batch = body_batch(i);
    batch.target[0] = i == 6 ? -2 : 1;
    auto step = [&](auto& trainer) {
      torch::manual_seed(1);
      return test::message_of([&] { trainer.step(batch); }).empty();
    };
    CAPTURE(i);
    CHECK(step(both.captured) == step(both.eager));
    CHECK(test::same_state(state_of(both.captured), state_of(both.eager)));
  }
}

/// A count that no operator makes.
struct CountedImpl : torch::nn::Module {
  torch::nn::Linear in{8, 8};
  CountedImpl() { register_module("in", in); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const std::vector<std::int64_t> rows{batch.input.size(0)};
    return {in(batch.input).square().sum(), at::tensor(rows)};
  }
};
TORCH_MODULE(Counted);

TEST_CASE("capture: a count in a tensor of the host is refused, or does not matter") {
  Compared<Counted, SGD> both;
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Outcome now = outcome_of(both.captured, body_batch(i), i);
    if (test::contains(now.error, "Capture<WholeStep>")) return;
    CHECK(difference(now, outcome_of(both.eager, body_batch(i), i)) == "");
  }
}

TEST_CASE("capture: every optimizer makes the steps without Capture") {
  auto steps = [](const char* name, auto optimizer, auto... others) {
    check_captured<RecordedNet>(name, 30, CrossEntropyLoss{}, optimizer, others...);
  };
  steps("SGD", SGD{.lr = 0.01, .momentum = 0.9, .nesterov = true});
  steps("Adam", Adam{.lr = 0.01, .amsgrad = true});
  steps("AdamW8bit", AdamW8bit{.min_8bit_size = 16});
  steps("Lion, Muon", Combined<Muon, Lion>{.match = named("*mix.weight")});
  steps("Adafactor", Adafactor{});
  steps("Adagrad, LAMB", Combined<Adagrad, LAMB>{.match = named("first.*")});
  steps("RMSprop, Rprop", Combined<RMSprop, Rprop>{.match = named("first.*")});
  steps("NAdam, RAdam", Combined<NAdam, RAdam>{.match = named("first.*")});
  steps("Adamax, Adadelta", Combined<Adamax, Adadelta>{.match = named("first.*")});
  steps("ASGD", ASGD{});
}

TEST_CASE("capture: LibTorch's optimizers make the steps without Capture") {
  auto steps = [](const char* name, auto optimizer) {
    check_captured<RecordedNet>(name, 30, CrossEntropyLoss{}, optimizer);
  };
  steps("SGD", LibTorchOptimizer<torch::optim::SGD>{torch::optim::SGDOptions(0.01).momentum(0.9)});
  steps("RMSprop", LibTorchOptimizer<torch::optim::RMSprop>{torch::optim::RMSpropOptions(0.01)});
}

TEST_CASE("capture: an index that is out of range in a replay is an error, and nothing else") {
  Compared<Recurrent, AdamW> both;
  for (int i = 0; i < 12; ++i) {
    Rows batch = sequences(i);
    if (i == 7) batch.target[0][0] = 8;
    auto step = [&](auto& trainer) {
      torch::manual_seed(static_cast<std::uint64_t>(i));
      return test::message_of([&] { trainer.step(batch); });
    };
    const std::string error = step(both.captured), other = step(both.eager);
    CHECK(error.empty() == other.empty());
    CHECK(error.empty() == (i != 7));
    if (!other.empty())
      CHECK(test::contains(error, "out of range in self, in `embedding` (step 7, microbatch 1 of"));
    CHECK(test::same_state(state_of(both.captured), state_of(both.eager)));
  }
  CHECK(both.replays() == 8);
}

TEST_CASE("capture: an error in a replay names the operator and the unit") {
  auto body = [](BodyImpl& self, const at::Tensor& x) {
    return self.linear(x).index_select(0, x.select(1, 0).abs().to(at::kLong));
  };
  Trainer trainer{seeded([&] { return BodyNet(body, usual_ending); }), SGD{.lr = 0.01},
                  Capture<WholeStep>{}};
  for (int i = 0; i < 9; ++i) {
    Rows batch = body_batch(i);
    batch.input *= i == 7 ? 1e6 : 1e-3;
    const std::string error = test::message_of([&] { trainer.step(batch); });
    CHECK(error.empty() == (i != 7));
    if (i == 7) CHECK(test::contains(error, "in self, in `index_select`, in unit `body` (step 7"));
  }
  CHECK(trainer.mechanism<Capture<WholeStep>>().replays() == 5);
}

}  // namespace guarantees::replay
