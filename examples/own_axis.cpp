// ctest:
// An axis of one's own, `constraint`, and a policy on it: after each update, no row of a matrix has
// a norm above max_norm. Source: Hinton et al., arXiv:1207.0580.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>

#include "check_policy.hpp"

// The axis: a recipe has one policy on it, or none.
struct constraint : ikebana::axis::own {};

struct MaxNormRows {
  using axis = constraint;
  double max_norm = 1;
};

template <>
struct ikebana::Mechanism<MaxNormRows> : ikebana::Hooks {
  MaxNormRows values;
  explicit Mechanism(MaxNormRows v) : values(v) { check(); }
  // All that may throw is done before the update.
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    check();
  }
  // On a device, this is called after an update that was rejected, too: `found_inf` is then 1.
  void after_update(const Masters& masters, const StepGradients& gradients) noexcept {
    const at::NoGradGuard no_grad;
    for (std::size_t i : gradients.indices) {
      const at::Tensor& weight = masters.values[i];  // of several ranks: some of its rows
      if (weight.dim() < 2 || weight.numel() == 0) continue;
      at::Tensor bounded = weight.renorm(2, /*dim=*/0, values.max_norm);
      if (gradients.found_inf.defined())
        bounded = at::where(gradients.found_inf != 0, weight, bounded);
      weight.copy_(bounded);
    }
  }
  std::string describe() const { return "max_norm=" + std::to_string(values.max_norm); }

 private:
  void check() const {
    if (!(values.max_norm > 0)) throw BadValue("MaxNormRows: max_norm must be positive.");
  }
};

using namespace ikebana;

int main() {
  auto net = [] {
    torch::manual_seed(0);
    return torch::nn::Sequential(torch::nn::Linear(16, 64), torch::nn::GELU(),
                                 torch::nn::Linear(64, 32));
  };
  auto recipe = [](auto model, auto... more) {
    return Trainer{model, MSELoss{}, SGD{.lr = 0.5}, MaxNormRows{.max_norm = 0.5}, more...};
  };
  std::vector<std::pair<at::Tensor, at::Tensor>> batches;
  for (int i = 0; i < 3; ++i) batches.emplace_back(at::randn({32, 16}), at::randn({32, 32}));

  check_policy::resumes(net, recipe, batches);
  check_policy::undoes(net, recipe, batches);
  check_policy::skips(net, recipe, batches);
  check_policy::on_two_ranks<ZeRO2>(net, recipe, batches);

  auto model = net();
  auto trainer = recipe(model);
  std::cout << trainer.describe();
  trainer.get<MaxNormRows>().max_norm = 0.25;  // from the next step on
  for (const auto& batch : batches) trainer.step(batch);
  const double largest = model->parameters()[0].norm(2, 1).max().item<double>();
  std::cout << "the largest norm of a row is " << largest << '\n';
  return largest < 0.2501 ? 0 : 1;
}
