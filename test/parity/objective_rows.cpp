// Defines rows of PyTorch's other losses as objectives.
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace objective_parts {

const AdamW adamw{.lr = 1e-2};
const Agreement divided_sum = bits_with("a sum that is divided");

/// Makes the MLP with a last layer, which is given by its name in Python.
template <class Last>
Work<nn::Sequential> ending_in(const std::string& name, Last last) {
  auto work = mlp_of(0);
  work.net = object_json([&](JsonWriter& out) {
    out.object("MLP", [&] { out.member("width", 16), out.member(name, true); });
  });
  work.model->push_back(last);
  return work;
}
/// Makes probabilities, and targets that are probabilities, too.
Work<nn::Sequential> probabilities() {
  auto work = ending_in("sigmoid", nn::Sigmoid());
  for (auto& parts : work.batches) parts[0].target = torch::rand({24, 16});
  return work;
}
Work<nn::Sequential> log_probabilities() { return ending_in("log_softmax", nn::LogSoftmax(-1)); }
Work<nn::Sequential> counting() {
  auto work = mlp_of(0);
  for (auto& parts : work.batches) parts[0].target = torch::randint(5, {24, 16}, at::kLong);
  return work;
}
/// Sequences, whose classes are last; some targets are masked.
Work<nn::Sequential> sequences() {
  return {"{\"MLP\":{\"width\":16}}", mlp(16), each_step([] {
            at::Tensor target = torch::randint(16, {6, 7}, at::kLong);
            return Batch{torch::randn({6, 7, 16}), target.masked_fill(target == 3, -100)};
          })};
}

struct Speech {
  at::Tensor input, target, input_lengths, target_lengths;
};
Work<nn::Sequential, Speech> speech() {
  auto net = log_probabilities();
  return {net.net, net.model, each_step([] {
            return Speech{torch::randn({10, 8, 16}), torch::randint(1, 16, {10, 3}, at::kLong),
                          torch::randint(6, 9, {10}, at::kLong),
                          torch::randint(0, 4, {10}, at::kLong)};
          })};
}
struct Triplets {
  at::Tensor anchor, positive, negative;
};
Work<nn::Sequential, Triplets> triplets() {
  auto row = [] { return torch::randn({12, 16}); };
  return {"{\"MLP\":{\"width\":16}}", mlp(16), each_step([&] {
            at::Tensor anchor = row(), positive = row();
            return Triplets{anchor, positive, row()};
          })};
}
struct Pairs {
  at::Tensor input1, input2, target;
};
Work<nn::Sequential, Pairs> pairs() {
  return {"{\"MLP\":{\"width\":16}}", mlp(16), each_step([] {
            at::Tensor first = torch::randn({12, 16}), second = torch::randn({12, 16});
            return Pairs{first, second, torch::randint(2, {12}, at::kLong) * 2 - 1};
          })};
}

}  // namespace objective_parts

// clang-format off
std::vector<Row> objective_rows() {
  using namespace objective_parts;
  const at::Tensor weight = torch::linspace(0.5, 2, 16);
  return {
      row("mlp.l1", bits, fitting_mlp, L1Loss{}, adamw),
      row("mlp.smooth_l1", bits, fitting_mlp, SmoothL1Loss{.beta = 0.5}, adamw),
      row("mlp.huber", bits, fitting_mlp, HuberLoss{.delta = 0.5}, adamw),
      row("mlp.poisson", bits, counting, PoissonNLLLoss{}, adamw),
      row("mlp.probabilities", divided_sum, probabilities, BCELoss{.weight = weight}, adamw),
      row("mlp.nll", bits, log_probabilities, NLLLoss{}, adamw),
      row("mlp.nll.weights", divided_sum, log_probabilities,
          NLLLoss{.ignore_index = 3, .weight = weight}, adamw),
      row("mlp.classes_last", bits, sequences, CrossEntropyLoss{.class_dim = -1}, adamw),
      row("mlp.classes_last.accumulate", bits, sequences, CrossEntropyLoss{.class_dim = -1}, adamw,
          Accumulate<4>{}),
      row("mlp.ctc", bits, speech, CTCLoss{.batch_first = true}, adamw),
      row("mlp.ctc.accumulate", bits, speech, CTCLoss{.batch_first = true}, adamw, Accumulate<4>{}),
      row("mlp.triplet", bits, triplets, TripletMarginLoss{.margin = 2, .swap = true}, adamw),
      row("mlp.cosine_embedding", bits, pairs, CosineEmbeddingLoss{.margin = 0.1}, adamw),
  };
}
// clang-format on

}  // namespace parity
