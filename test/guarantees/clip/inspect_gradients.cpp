// InspectGradients shows the true gradients, and changes no bit.
#include "test.hpp"

#include "guarantees/guarantees.hpp"

namespace guarantees::inspect_gradients {

using namespace ikebana;
namespace nn = torch::nn;
using Batch = std::pair<at::Tensor, at::Tensor>;
using Gradients = std::vector<std::pair<std::string, at::Tensor>>;

nn::Sequential net(at::ScalarType type = at::kFloat) {
  torch::manual_seed(0);
  nn::Linear first(4, 8), second(8, 3);
  nn::Sequential model(first, nn::Tanh(), second);
  model->to(type);
  return model;
}
std::vector<Batch> batches(at::ScalarType type = at::kFloat) {
  torch::manual_seed(1);
  std::vector<Batch> all;
  for (int i = 0; i < 4; ++i)
    all.emplace_back(at::randn({8, 4}).to(type), at::arange(8).remainder(3));
  return all;
}
/// Returns a hook that copies what it sees.
InspectGradients copies_to(Gradients& seen) {
  return {[&seen](const std::string& name, const at::Tensor& gradient) {
    CHECK_FALSE(gradient.requires_grad());
    seen.emplace_back(name, gradient.clone());
  }};
}
Tensors tensors_of(const Gradients& all) {
  Tensors tensors;
  for (const auto& [name, t] : all) tensors.push_back(t.to_dense());
  return tensors;
}

/// Checks that in each step the hook sees PyTorch's `p.grad` of the same weights, up to `bound`,
/// and that the states equal the states of the recipe without it.
template <class... Policies>
void shows(double bound, at::ScalarType type, const Policies&... policies) {
  Gradients seen;
  Trainer trainer{net(type), CrossEntropyLoss{}, AdamW{.lr = 0.1}, copies_to(seen), policies...};
  Trainer plain{net(type), CrossEntropyLoss{}, AdamW{.lr = 0.1}, policies...};
  nn::Sequential by_hand = net(type);
  for (const auto& batch : batches(type)) {
    trainer.with_full_weights([&](auto& model) {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 4; ++i)
        by_hand->parameters()[i].copy_(model->parameters()[i]), by_hand->zero_grad();
    });
    at::cross_entropy_loss(by_hand->forward(batch.first), batch.second).backward();
    seen.clear();
    trainer.step(batch), plain.step(batch);
    REQUIRE(seen.size() == 4);
    Tensors gradients;
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(seen[i].first == by_hand->named_parameters()[i].key());
      gradients.push_back(by_hand->parameters()[i].grad());
    }
    CHECK(test::worst_relative(tensors_of(seen), gradients) < bound);
  }
  CHECK(test::same_state(trainer.state(), plain.state()));
}

TEST_CASE("InspectGradients: it shows p.grad of PyTorch in every recipe, and changes no bit") {
  shows(1e-6, at::kFloat);
  shows(1e-14, at::kDouble);
  shows(1e-6, at::kFloat, Accumulate<3>{});
  shows(1e-6, at::kFloat, ClipGradNorm{.max_norm = 1e-3});
  shows(1e-14, at::kDouble, Accumulate<2>{}, ClipGradNorm{.max_norm = 1e-3});
  shows(1e-2, at::kFloat, Precision<FP16>{}, Accumulate<2>{});
  shows(5e-2, at::kFloat, Precision<BF16>{});
  shows(5e-2, at::kFloat, Precision<BF16Weights>{}, EMA{});
  shows(1e-6, at::kFloat, Offload<CPU>{}, Accumulate<2>{});
  shows(1e-6, at::kFloat, Checkpoint<Full>{});
}

TEST_CASE("InspectGradients: behind ClipGradNorm it shows clipped gradients") {
  Gradients before, after;
  const ClipGradNorm tight{.max_norm = 1e-2};
  Trainer first{net(), CrossEntropyLoss{}, SGD{}, copies_to(before), tight};
  Trainer last{net(), CrossEntropyLoss{}, SGD{}, tight, copies_to(after)};
  const double norm = *first.step(batches()[0]).grad_norm();
  last.step(batches()[0]);
  auto norm_of = [](const Gradients& all) {
    double sum = 0;
    for (const at::Tensor& t : tensors_of(all)) sum += t.square().sum().item<double>();
    return std::sqrt(sum);
  };
  CHECK(norm_of(before) == doctest::Approx(norm).epsilon(1e-6));
  CHECK(norm_of(after) == doctest::Approx(1e-2).epsilon(1e-3));
}

TEST_CASE("InspectGradients: of a sparse gradient, and of a step that is skipped") {
  Gradients seen;
  torch::manual_seed(0);
  nn::Embedding words(nn::EmbeddingOptions(6, 2).sparse(true));
  auto sum = [](auto&, nn::Embedding& model, const at::Tensor& rows) {
    return Loss{model->forward(rows).sum(), rows.numel()};
  };
  Trainer sparse{words, sum, SparseAdam{}, copies_to(seen), Accumulate<2>{}};
  sparse.step(at::tensor({1, 1, 2, 5}));
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].second.is_sparse());
  CHECK(test::same_bits(seen[0].second.to_dense().select(1, 0),
                        at::tensor({0.0f, 0.5f, 0.25f, 0.0f, 0.0f, 0.25f})));

  Gradients skipped;
  Trainer half{net(), CrossEntropyLoss{}, SGD{}, copies_to(skipped),
               Precision<FP16>{.init_scale = 0x1p30}};
  CHECK(half.step(batches()[0]).skipped());
  CHECK(skipped.size() == 4);
}

TEST_CASE("InspectGradients: a hook that changes or keeps a gradient, or throws, undoes the step") {
  at::Tensor kept;
  std::vector<std::function<void(const at::Tensor&)>> wrong = {
      [](const at::Tensor& g) { g.mul_(2); }, [](const at::Tensor& g) { g.flatten().zero_(); },
      [&](const at::Tensor& g) { kept = g; }, [&](const at::Tensor& g) { kept = g.t(); },
      [&](const at::Tensor& g) { kept = g.detach().flatten(); }};
  for (const bool divided : {false, true})
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      INFO(i);
      kept.reset();
      Trainer trainer{net(), CrossEntropyLoss{}, AdamW{}, InspectGradients{}, Accumulate<>{1}};
      trainer.template get<Accumulate<>>().microbatches = divided ? 2 : 1;
      trainer.step(batches()[0]);
      const auto before = trainer.state();
      trainer.get<InspectGradients>().hook = [&](const std::string& name, const at::Tensor& g) {
        if (name == "2.weight") wrong[i](g);
      };
      const std::string text = test::message_of<BadValue>([&] { trainer.step(batches()[1]); });
      CHECK_MESSAGE(test::contains(text, i < 2 ? "the hook changed the gradient of `2.weight`"
                                               : "the hook kept the gradient of `2.weight`"),
                    text);
      CHECK(test::same_state(trainer.state(), before));
      trainer.get<InspectGradients>().hook = [](const auto&...) { throw std::string("mine"); };
      CHECK_THROWS_AS(trainer.step(batches()[1]), std::string);
      CHECK(test::same_state(trainer.state(), before));
      trainer.get<InspectGradients>().hook = {};
      CHECK_NOTHROW(trainer.step(batches()[1]));
    }
}

}  // namespace guarantees::inspect_gradients
