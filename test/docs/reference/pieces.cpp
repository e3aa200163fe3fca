// Examples of the reference: pieces of the library in a loop without a trainer.
#include <ikebana/pieces.hpp>

#include "policies.hpp"

namespace test::reference::own_loop {

TEST_CASE_FIXTURE(Small, "reference: an optimizer and an average in a loop without a trainer") {
  // example: pieces::Optimizer, pieces::AveragedWeights, pieces::clip_gradients
  pieces::Optimizer<AdamW> optimizer(model, {.lr = 1e-2});
  pieces::AveragedWeights average(model, EMA{.decay = 0.9});
  for (const Rows& rows : loader) {
    optimizer.zero_grad();
    nn::functional::cross_entropy(model->forward(rows.input), rows.target).backward();
    pieces::clip_gradients(model->parameters(), ClipGradNorm{.max_norm = 1});
    optimizer.step();
    average.update();
  }
  at::Tensor scores = average.evaluate([&] { return model->forward(batch.input); });
  // end
  CHECK(average.n_averaged() == static_cast<std::int64_t>(loader.size()));
  CHECK(scores.isfinite().all().item<bool>());
}

TEST_CASE_FIXTURE(Small, "reference: autocast and a loss scale in a loop without a trainer") {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  // example: pieces::AutocastScope, pieces::GradScaler
  pieces::GradScaler scaler({.init_scale = 1024});
  for (const Rows& rows : loader) {
    optimizer.zero_grad();
    at::Tensor loss;
    {
      const pieces::AutocastScope autocast(at::kCPU, at::kHalf);
      loss = nn::functional::cross_entropy(model->forward(rows.input), rows.target);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
  }
  // end
  CHECK(scaler.loss_scale() == 1024);
  CHECK(change() > 0);
}

TEST_CASE_FIXTURE(Small, "reference: a checkpointed call in a loop without a trainer") {
  // example: pieces::Checkpointed
  nn::Linear layer(4, 4);
  pieces::Checkpointed checkpointed(layer);  // or (layer, Checkpoint<Selective>{})
  at::Tensor hidden = checkpointed(batch.input);
  model->forward(hidden).sum().backward();  // computes the layer again
  // end
  CHECK(layer->weight.grad().defined());
}

}  // namespace test::reference::own_loop
