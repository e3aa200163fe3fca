// Tests optimizers that are called by hand between the steps of a trainer.
#include "test.hpp"

#include "compare.hpp"

namespace test::by_hand {

using namespace ikebana;
namespace nn = torch::nn;
using Batch = std::pair<at::Tensor, at::Tensor>;

nn::Sequential net() {
  torch::manual_seed(0);
  nn::Linear first(4, 8), second(8, 3);
  return nn::Sequential(first, nn::Tanh(), second);
}
Batch batch(int seed) { return {random({12, 4}, seed), at::arange(12).remainder(3)}; }

template <class Parameters, class Model>
void by_lbfgs(const Parameters& parameters, Model& model) {
  torch::optim::LBFGS optimizer(parameters, torch::optim::LBFGSOptions(0.5).max_iter(4));
  optimizer.step([&] {
    optimizer.zero_grad();
    at::Tensor loss = at::cross_entropy_loss(model->forward(batch(9).first), batch(9).second);
    loss.backward();
    return loss;
  });
}

/// LBFGS inside of replace_weights has the bits that it has on a plain model of the same weights,
/// and the trainer goes on from there.
template <class... Policies>
void goes_on(const Policies&... policies) {
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, policies...};
  for (int i = 0; i < 3; ++i) trainer.step(batch(i));
  nn::Sequential plain = net();
  auto copy = [](nn::Sequential& to, const nn::Sequential& from) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 4; ++i) to->parameters()[i].copy_(from->parameters()[i]);
  };
  trainer.with_full_weights([&](nn::Sequential& model) { copy(plain, model); });
  const auto before = values_of(plain);
  trainer.replace_weights([](nn::Sequential& model) { by_lbfgs(model->parameters(), model); });
  by_lbfgs(plain->parameters(), plain);
  CHECK_FALSE(same_bits(values_of(plain), before));
  nn::Sequential after = net();
  trainer.with_full_weights([&](nn::Sequential& model) { copy(after, model); });
  CHECK(same_bits(values_of(after), values_of(plain)));
  trainer.with_full_weights([&](nn::Sequential& model) { copy(after, model); }, {.averaged = true});
  CHECK(same_bits(values_of(after), values_of(plain)));

  Trainer other{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, policies...};
  for (int i = 0; i < 3; ++i) other.step(batch(i));
  other.replace_weights([&](nn::Sequential& model) { copy(model, plain); });
  trainer.step(batch(4)), other.step(batch(4));  // LBFGS's gradients are not in it
  CHECK(same(trainer.state(), other.state()));
}

TEST_CASE("by hand: LBFGS inside of replace_weights, in any recipe, and the trainer goes on") {
  goes_on();
  goes_on(EMA{.decay = 0.5});
  goes_on(Precision<BF16>{}, Accumulate<2>{});
  goes_on(Precision<BF16Weights>{});
  goes_on(Precision<BF16Weights>{}, EMA{.decay = 0.5});
  goes_on(Offload<CPU>{});
}
TEST_CASE(
    "by hand: a second trainer of the same parameters is an error, until the first has ended") {
  nn::Sequential model = net();
  {
    Trainer trainer{model, CrossEntropyLoss{}};
    CHECK(told<BadModel>([&] { Trainer(model, CrossEntropyLoss{}, SGD{}); },
                         {"another trainer trains these parameters already"}) == "");
  }
  CHECK_NOTHROW(Trainer(model, CrossEntropyLoss{}, SGD{}));
}

}  // namespace test::by_hand
