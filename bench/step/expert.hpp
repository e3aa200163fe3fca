#pragma once
// Defines the contestant `expert`, a loop by hand on LibTorch's operators: one fused update,
// clipping as its divisor, gradients freed, recompute as an autograd function.
#include <ATen/ScalarOps.h>

#include "hand_models.hpp"

namespace bench {

/// Frees what a block keeps for backward, and computes it again there.
struct Recompute : torch::autograd::Function<Recompute> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& x, Model* model, std::size_t block,
                            bool bf16) {
    context->save_for_backward({x});
    context->saved_data["model"] = reinterpret_cast<std::int64_t>(model);
    context->saved_data["block"] = static_cast<std::int64_t>(block);
    context->saved_data["bf16"] = bf16;
    return model->block(block, x);
  }
  static Tensors backward(Context* context, const Tensors& gradients) {
    auto* model = reinterpret_cast<Model*>(context->saved_data["model"].toInt());
    at::Tensor saved = context->get_saved_variables()[0];
    at::Tensor x = saved.detach().set_requires_grad(saved.requires_grad()), y;
    {
      torch::AutoGradMode enable(true);
      Autocast autocast(context->saved_data["bf16"].toBool(), x.device().type());
      y = model->block(static_cast<std::size_t>(context->saved_data["block"].toInt()), x);
    }
    if (y.requires_grad()) torch::autograd::backward({y}, gradients);
    return {x.grad(), {}, {}, {}};
  }
};

inline at::Tensor on_host(double number) {
  return at::detail::scalar_tensor_static(number, at::kFloat, at::kCPU);
}

/// Returns the divisor of clipping, computed by operators or directly in memory.
inline at::Tensor clip_divisor(const Tensors& gradients, double max_norm, bool reads) {
  auto norms = at::_foreach_norm(gradients, 2);
  if (!reads) {
    auto norm = at::linalg_vector_norm(at::stack(norms), 2);
    return ((norm + 1e-6) / max_norm).clamp_min(1);
  }
  c10::SmallVector<float, 64> numbers;
  for (const auto& norm : norms) numbers.push_back(*norm.const_data_ptr<float>());
  auto norm = at::linalg_vector_norm(at::tensor(c10::ArrayRef<float>(numbers)), 2);
  return on_host(std::max((*norm.const_data_ptr<float>() + 1e-6f) / float(max_norm), 1.0f));
}

/// One fused call over all parameters, with one tensor as step count. For `same` the learning rate
/// is a tensor, as capturing a schedule requires.
class FusedAdamW {
 public:
  FusedAdamW(const torch::nn::Module& model, bool same)
      : same_(same), parameters_(model.parameters()), lr_(at::full({}, lr, at::kDouble)) {
    for (const auto& p : parameters_)
      first_.push_back(at::zeros_like(p)), second_.push_back(at::zeros_like(p));
    steps_.assign(parameters_.size(), at::zeros({}, parameters_[0].device()));
  }
  void update(std::optional<double> max_norm) {
    torch::NoGradGuard no_grad;
    for (const auto& p : parameters_) gradients_.push_back(p.grad());
    std::optional<at::Tensor> divisor;
    if (max_norm) divisor = clip_divisor(gradients_, *max_norm, same_);
    count_step();
    auto apply = [&](const auto& rate) {
      at::_fused_adamw_(parameters_, gradients_, first_, second_, {}, steps_, rate, 0.9, 0.999,
                        1e-2, 1e-8, false, false, divisor, {});
    };
    if (same_) apply(lr_);
    else apply(lr);
    gradients_.clear();
    for (auto& p : parameters_) p.mutable_grad().reset();
  }

 private:
  /// All parameters share one tensor. On a device only an operator can write to it.
  void count_step() {
    if (steps_[0].is_cpu()) *steps_[0].data_ptr<float>() += 1;
    else steps_[0].add_(1);
  }

  static constexpr double lr = 1e-3;
  bool same_;
  Tensors parameters_, gradients_, first_, second_, steps_;
  at::Tensor lr_;
};

/// The loop. For `same` it calls exactly the operators that ikebana's step calls: the loss is a
/// sum, backward is seeded with 1 / count, and values on the host are read and written directly.
class Loop {
 public:
  Loop(const Setting& setting, std::shared_ptr<Model> model, bool same)
      : model_(std::move(model)),
        optimizer_(*model_, same),
        bf16_(setting.is_bf16()),
        cuts_(std::max<std::int64_t>(1, setting.number("accumulate"))),
        same_(same),
        sums_(same || cuts_ > 1) {
    if (setting.number("clip")) clip_ = 1.0;
    if (setting.checkpoints())
      around_ = [this](std::size_t block, const at::Tensor& x) {
        // The function has a backward only if one of its inputs requires a gradient.
        at::Tensor input = x.requires_grad() ? x : x.detach().set_requires_grad(true);
        return Recompute::apply(input, model_.get(), block, bf16_);
      };
  }
  void step(const Batch& batch) {
    total_ = sums_ ? static_cast<double>(batch.second.numel()) : 1;
    if (cuts_ == 1) {
      value_ = backward(batch.first, batch.second);
    } else {
      auto inputs = batch.first.chunk(cuts_), targets = batch.second.chunk(cuts_);
      value_ = backward(inputs[0], targets[0]);
      for (std::size_t i = 1; i < inputs.size(); ++i) value_ += backward(inputs[i], targets[i]);
    }
    optimizer_.update(clip_);
  }
  double loss() const { return value_.item<double>() / total_; }

 private:
  at::Tensor backward(const at::Tensor& input, const at::Tensor& targets) {
    at::Tensor loss;
    {
      Autocast autocast(bf16_, input.device().type());
      at::Tensor logits = model_->forward(input, around_);
      at::Tensor target = targets.dim() == 1 ? targets : targets.flatten();
      loss = at::cross_entropy_loss(logits, target, {},
                                    sums_ ? at::Reduction::Sum : at::Reduction::Mean);
    }
    Tensors seeds;
    if (sums_)
      seeds.push_back(same_ ? on_host(1 / total_) : at::full({}, 1 / total_, loss.options()));
    at::Tensor value = same_ ? loss.variable_data() : loss.detach();
    torch::autograd::backward({loss}, seeds);
    return value;
  }

  std::shared_ptr<Model> model_;
  FusedAdamW optimizer_;
  bool bf16_;
  std::int64_t cuts_;
  bool same_, sums_;
  std::optional<double> clip_;
  Model::Around around_;
  at::Tensor value_;
  double total_ = 1;
};

inline Contestant expert(const Setting& setting, std::shared_ptr<Model> model, bool same) {
  auto loop = std::make_shared<Loop>(setting, std::move(model), same);
  return {[=](const Batch& batch) { loop->step(batch); }, [=] { return loop->loss(); }};
}

}  // namespace bench
