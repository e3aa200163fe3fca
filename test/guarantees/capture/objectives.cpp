// Every objective makes the steps without Capture, and LibTorch has nothing to warn of.
#include "captured.hpp"
#include "trainer/warnings.hpp"

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

TEST_CASE("capture: CTCLoss reads lengths on the host, and is refused") {
  const Sequences batch{
      torch::randn({3, rows, width}), at::ones({3, 4}, at::kLong), {8, 7, 8}, {4, 2, 3}};
  Trainer trainer{LogNet(), CTCLoss{.batch_first = true}, AdamW{}, Capture<WholeStep>{}};
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  const std::string text = test::message_of<BadValue>([&] { trainer.step(batch); });
  CHECK(test::contains(text, "CTCLoss: the step is recorded, and the lengths of samples"));
}

}  // namespace guarantees::capture_objectives
