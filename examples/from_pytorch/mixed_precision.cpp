// Mixed precision: autocast around forward, and with FP16 a loss scale that is reduced on overflow.
#include "side_by_side.hpp"

#include <ATen/autocast_mode.h>

namespace mixed_precision {

using namespace ikebana;
namespace nn = torch::nn;

at::Tensor forward_in_half(nn::Sequential& model, const Rows& batch) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  at::autocast::increment_nesting();
  at::Tensor output = model->forward(batch.input);
  at::Tensor loss = nn::functional::cross_entropy(output, batch.target);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return loss;
}

nn::Sequential by_hand(const std::vector<Rows>& loader, at::Tensor scale, int& skipped) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  at::Tensor growth = at::zeros({1}, at::kInt);  // torch.amp.GradScaler exists only in Python
  for (const Rows& batch : loader) {
    optimizer.zero_grad();
    (forward_in_half(model, batch) * scale).backward();
    at::Tensor overflow = at::zeros({1}), unscale = scale.reciprocal();
    std::vector<at::Tensor> gradients;
    for (auto& p : model->parameters()) gradients.push_back(p.grad());
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow, unscale);
    nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    if (overflow.item<float>() == 0) optimizer.step();
    else ++skipped;
    at::_amp_update_scale_(scale, growth, overflow, 2.0, 0.5, /*growth_interval=*/8);
  }
  return model;
}

TEST_CASE("from PyTorch: mixed precision") {
  std::vector<Rows> loader = some_batches(40);
  nn::Sequential model = net();
  double init_scale = 1 << 20;  // too large for FP16: the first steps overflow
  int skipped = 0, hand_skipped = 0;

  // LibTorch's kernels on every processor, as the other two; leave it out for the fastest.
  constexpr auto native = CPUProducts::Native;
  Trainer trainer{
      model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, ClipGradNorm{.max_norm = 0.5},
      Precision<FP16>{.init_scale = init_scale, .growth_interval = 8, .cpu_products = native}};
  for (const Rows& batch : loader) {
    Report report = trainer.step(batch);
    if (report.skipped()) ++skipped;
  }

  at::Tensor scale = at::full({1}, init_scale);
  nn::Sequential hand_model = by_hand(loader, scale, hand_skipped);
  same_end("mixed_precision", model->parameters(), hand_model->parameters(), net()->parameters());
  CHECK(skipped == hand_skipped);
  CHECK(skipped > 1);
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() == scale.item<double>());
}

}  // namespace mixed_precision
