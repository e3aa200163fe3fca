#pragma once
// Defines the contestant `libtorch`, written like LibTorch's tutorials: torch::optim,
// clip_grad_norm_.
#include "hand_models.hpp"

namespace bench {

inline Contestant idiomatic(const Setting& setting, std::shared_ptr<Model> model) {
  auto optimizer = std::make_shared<torch::optim::AdamW>(model->parameters());
  auto last = std::make_shared<at::Tensor>();
  auto step = [=, bf16 = setting.is_bf16(), clip = setting.number("clip")](const Batch& batch) {
    optimizer->zero_grad();
    at::Tensor loss;
    {
      Autocast autocast(bf16, batch.first.device().type());
      loss = torch::nn::functional::cross_entropy(model->forward(batch.first, nullptr),
                                                  batch.second.flatten());
    }
    loss.backward();
    if (clip) torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer->step();
    *last = loss.detach();
  };
  return {step, [=] { return last->item<double>(); }};
}

}  // namespace bench
