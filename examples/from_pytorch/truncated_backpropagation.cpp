// Truncated backpropagation through time: the state of a recurrent net is passed from window to
// window, without gradients.
#include "side_by_side.hpp"

namespace truncated_backpropagation {

using namespace ikebana;
namespace nn = torch::nn;

using State = std::optional<std::tuple<at::Tensor, at::Tensor>>;

struct RecurrentImpl : nn::Module {
  nn::LSTM lstm{nn::LSTMOptions(3, 8).batch_first(true)};
  nn::Linear head{8, 1};
  RecurrentImpl() { register_module("lstm", lstm), register_module("head", head); }
  std::pair<at::Tensor, State> forward(const at::Tensor& x, const State& state) {
    auto [hidden, after] = lstm->forward(x, state);
    return {head(hidden).squeeze(2), after};
  }
};
TORCH_MODULE(Recurrent);

Recurrent recurrent() {
  torch::manual_seed(1);
  return Recurrent();
}
State detached(const State& state) {
  return std::tuple{std::get<0>(*state).detach(), std::get<1>(*state).detach()};
}

/// Returns four songs of 120 beats, cut into windows of 10.
std::vector<Rows> windows() {
  torch::manual_seed(0);
  at::Tensor song = at::randn({4, 120, 3}), wanted = at::randn({4, 120});
  std::vector<Rows> all;
  for (int i = 0; i < 12; ++i)
    all.push_back({song.narrow(1, 10 * i, 10), wanted.narrow(1, 10 * i, 10)});
  return all;
}

Recurrent by_hand(const std::vector<Rows>& loader) {
  Recurrent model = recurrent();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  State state;
  for (const Rows& window : loader) {
    optimizer.zero_grad();
    auto [output, after] = model->forward(window.input, state);
    at::mse_loss(output, window.target).backward();
    optimizer.step();
    state = detached(after);
  }
  return model;
}

TEST_CASE("from PyTorch: truncated backpropagation through time") {
  std::vector<Rows> loader = windows();
  Recurrent model = recurrent();

  State state;
  auto objective = [&](auto& run, Recurrent& net, const Rows& window) {
    auto [output, after] = run(net, window.input, state);
    state = detached(after);
    return Loss{at::mse_loss(output, window.target, at::Reduction::Sum), window.target.numel()};
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-2}};
  for (const Rows& window : loader) trainer.step(window);

  same_end("truncated_backpropagation", model->parameters(), by_hand(loader)->parameters(),
           recurrent()->parameters());
}

}  // namespace truncated_backpropagation
