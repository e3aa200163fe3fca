// Every objective makes the steps without Capture, and LibTorch has nothing to warn of.
#include "captured.hpp"
#include "trainer/warnings.hpp"

#include <ikebana/modules/linear_cross_entropy.hpp>

namespace guarantees::capture_objectives {

constexpr std::int64_t width = 6, rows = 8;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear in{width, 12}, out{12, width};
  NetImpl() { register_module("in", in), register_module("out", out); }
  at::Tensor forward(const at::Tensor& x) { return out(at::tanh(in(x))); }
};
TORCH_MODULE(Net);

struct LogNetImpl : NetImpl {
  at::Tensor forward(const at::Tensor& x) { return NetImpl::forward(x).log_softmax(-1); }
};
TORCH_MODULE(LogNet);

struct SigmoidNetImpl : NetImpl {
  at::Tensor forward(const at::Tensor& x) { return NetImpl::forward(x).sigmoid(); }
};
TORCH_MODULE(SigmoidNet);

struct Pairs {
  at::Tensor input1, input2, target;
};
struct Triplets {
  at::Tensor anchor, positive, negative;
};
struct Sequences {
  at::Tensor input, target;
  std::vector<std::int64_t> input_lengths, target_lengths;
};

/// Steps an objective on batches that `make(i)` makes.
template <class Model = Net, class Objective, class Make>
void check(const std::string& name, const Objective& objective, const Make& make) {
  CAPTURE(name);
  const test::Warnings warnings;
  Compared<Model, Objective, AdamW> both(objective, AdamW{.lr = 0.01});
  for (int i = 0; i < 9; ++i) {
    torch::manual_seed(static_cast<std::uint64_t>(50 + i));
    REQUIRE(both.step(i, make(i), nothing));
    REQUIRE(both.error == "");
  }
  CHECK(both.replays() == 5);
  CHECK(warnings.all == std::vector<std::string>());
}

at::Tensor numbers() { return torch::randn({rows, width}); }
at::Tensor shares() { return torch::rand({rows, width}); }
at::Tensor classes() { return torch::randint(width, {rows}, at::kLong); }
Rows with(const at::Tensor& target) { return {numbers(), target}; }

TEST_CASE("capture: objectives of numbers") {
  auto of_numbers = [](int) { return with(numbers()); };
  check("MSELoss", MSELoss{}, of_numbers);
  check("L1Loss", L1Loss{}, of_numbers);
  check("SmoothL1Loss", SmoothL1Loss{}, of_numbers);
  check("HuberLoss", HuberLoss{}, of_numbers);
  auto of_shares = [](int) { return with(shares()); };
  check<SigmoidNet>("BCELoss", BCELoss{}, of_shares);
  check("BCEWithLogitsLoss", BCEWithLogitsLoss{}, of_shares);
  check("PoissonNLLLoss", PoissonNLLLoss{}, of_shares);
  check<LogNet>("KLDivLoss", KLDivLoss{}, of_shares);
}

TEST_CASE("capture: objectives of classes") {
  auto of_classes = [](int i) {
    Rows batch = with(classes());
    batch.target[i % rows] = -100;
    return batch;
  };
  check("CrossEntropyLoss", CrossEntropyLoss{}, of_classes);
  check("label_smoothing, weights",
        CrossEntropyLoss{.label_smoothing = 0.1, .weight = at::arange(1, width + 1, at::kFloat)},
        of_classes);
  check<LogNet>("NLLLoss", NLLLoss{}, of_classes);
  check("probabilities", CrossEntropyLoss{}, [](int) { return with(shares().softmax(1)); });
}

TEST_CASE("capture: objectives of embeddings") {
  check("CosineEmbeddingLoss", CosineEmbeddingLoss{.margin = 0.2}, [](int) {
    return Pairs{numbers(), numbers(), torch::randint(2, {rows}, at::kFloat) * 2 - 1};
  });
  check("TripletMarginLoss", TripletMarginLoss{},
        [](int) { return Triplets{numbers(), numbers(), numbers()}; });
}

/// A net whose head never has all of its logits.
struct ChunkedNetImpl : torch::nn::Module {
  static constexpr std::int64_t classes = 50;
  modules::LinearCrossEntropyOptions options;
  torch::nn::Linear in{width, 24}, out{24, classes};
  ChunkedNetImpl() { register_module("in", in), register_module("out", out); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    auto with_bias = options;
    with_bias.bias = out->bias;
    return modules::linear_cross_entropy(at::tanh(in(batch.input)), out->weight, batch.target,
                                         with_bias);
  }
};
TORCH_MODULE(ChunkedNet);

/// Such a head, as a unit.
struct ChunkedHeadImpl : torch::nn::Module {
  modules::LinearCrossEntropyOptions options;
  torch::nn::Linear out{24, ChunkedNetImpl::classes};
  ChunkedHeadImpl() { register_module("out", out); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& target) {
    return modules::linear_cross_entropy(at::tanh(x), out->weight, target, options).sum;
  }
};
TORCH_MODULE(ChunkedHead);

struct ChunkedHeadNetImpl : torch::nn::Module {
  using units = Units<ChunkedHead>;
  modules::LinearCrossEntropyOptions options;
  torch::nn::Linear in{width, 24};
  ChunkedHead head;
  ChunkedHeadNetImpl() { register_module("in", in), register_module("head", head); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor kept = batch.target != head->options.ignore_index;
    return {run(head, in(batch.input), batch.target), kept.sum()};
  }
};
TORCH_MODULE(ChunkedHeadNet);

/// None, some, all but one, or all of the targets are ignored.
Rows partly_ignored(int i, std::int64_t index, std::int64_t count = 70) {
  torch::manual_seed(static_cast<std::uint64_t>(80 + i));
  Rows batch{torch::randn({count, width}),
             torch::randint(ChunkedNetImpl::classes, {count}, at::kLong)};
  const std::vector<double> shares = {0.3, 0, 0.9, 0.5};
  batch.target.masked_fill_(torch::rand({count}) < shares[static_cast<std::size_t>(i % 4)], index);
  if (i == 9) batch.target.narrow(0, 1, count - 1).fill_(index);
  if (i == 11) batch.target.fill_(index);
  return batch;
}

template <class Model = ChunkedNet, class What = WholeStep, class... Policies>
void check_chunked(const std::string& name, const modules::LinearCrossEntropyOptions& options,
                   std::int64_t replays, const Policies&... policies) {
  CAPTURE(name);
  ComparedWith<What, Model, Policies...> both(policies...);
  both.eager.model()->options = both.captured.model()->options = options;
  for (int i = 0; i < 14; ++i) {
    Rows batch = partly_ignored(i, options.ignore_index);
    if (i == 8) batch.target[3] = ChunkedNetImpl::classes + 7;
    REQUIRE(both.step(i, batch, nothing));
    const std::string wrong = "with the target 57, which is neither one of the 50 classes nor";
    const std::string expected = i == 8 ? wrong : i == 11 ? "its count is 0" : "";
    CHECK(both.error.empty() == expected.empty());
    CHECK(both.error.find(expected) != std::string::npos);
  }
  // The gradients are in the dtype in which they are computed, and so in planned memory.
  if (both.captured.model()->in->weight.scalar_type() == at::kFloat)
    each_tape(both.capture(), [](const auto& tape) { CHECK(tape.copies() == 0); });
  CHECK(both.replays() == replays);
}

TEST_CASE("capture: linear_cross_entropy leaves out ignored targets, and refuses wrong ones") {
  const AdamW adamw{.lr = 0.01};
  check_chunked("plain", {}, 10, adamw);
  check_chunked("smoothing", {.label_smoothing = 0.1, .chunk_rows = 16}, 10, adamw);
  check_chunked("index", {.ignore_index = 5}, 10, adamw);
  check_chunked("BF16", {.chunk_rows = 32}, 10, adamw, Precision<BF16>{});
  check_chunked("BF16True", {}, 10, adamw, Precision<BF16True>{});
  check_chunked("Accumulate", {}, 19, adamw, Accumulate<2>{});
  check_chunked<ChunkedHeadNet>("unit", {}, 10, adamw);
  check_chunked<ChunkedHeadNet>("Full", {}, 10, adamw, Checkpoint<Full>{});
  check_chunked<ChunkedHeadNet>("Selective", {}, 10, adamw, Checkpoint<Selective>{});
  check_chunked<ChunkedHeadNet, EachUnit>("EachUnit", {}, 10, adamw);
}

TEST_CASE("capture: CTCLoss reads lengths on the host, and is refused") {
  const Sequences batch{
      torch::randn({3, rows, width}), at::ones({3, 4}, at::kLong), {8, 7, 8}, {4, 2, 3}};
  Trainer trainer{LogNet(), CTCLoss{.batch_first = true}, AdamW{}, Capture<WholeStep>{}};
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  const std::string text = test::message_of<BadValue>([&] { trainer.step(batch); });
  CHECK(test::contains(text, "CTCLoss: the step is recorded, and the lengths of samples"));
}

}  // namespace guarantees::capture_objectives
