// Tests EMA of 16-bit weights.
#include "guarantees/guarantees.hpp"

namespace guarantees::average_wide {

torch::nn::Sequential net() {
  return seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 8)); });
}

TEST_CASE("EMA: 16-bit weights have an FP32 average, which a decay near 1 still changes") {
  using Word = Precision<BF16True>;
  auto model = net();
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}, Word{}, EMA{.decay = 0.999}};
  at::Tensor expected;
  for (const auto& batch : class_batches(20, 7, 4, 3)) {
    trainer.step(Rows{batch.input, torch::ones({7, 8})});
    at::Tensor now = model[0]->as<torch::nn::Linear>()->weight.detach().to(at::kDouble);
    expected = expected.defined() ? 0.999 * expected + 0.001 * now : now;
  }
  at::Tensor average = trainer.mechanism<EMA>().averages()[0];
  CHECK((average.scalar_type() == at::kFloat));
  CHECK(largest_difference(average, expected) < 1e-6);
  auto before = trainer.state();
  at::Tensor shown = trainer.with_full_weights(
      [](auto& whole) { return whole->parameters()[0].detach().to(at::kFloat).clone(); },
      {.averaged = true});
  CHECK(test::same_bits(shown.to(at::kBFloat16), average.to(at::kBFloat16)));
  CHECK(same_state(trainer.state(), before));
  Trainer again{net(), MSELoss{}, SGD{.lr = 0.1}, Word{}, EMA{.decay = 0.999}};
  again.restore(before);
  CHECK(same_state(again.state(), before));
  CHECK(test::same_bits(before.at("0.weight"), average.to(at::kBFloat16)));  // what was evaluated
  CHECK(test::same_bits(before.at("ikebana.EMA.0.weight.average"), average));
  StateDict former = before;  // as former versions wrote it; the bias is stored in FP32
  former["ikebana.EMA.0.bias.average"] = before.at("0.bias");
  for (const char* name : {"0.weight", "0.bias"}) {
    auto trained = former.extract("ikebana.trained." + std::string(name));
    former[name] = trained.mapped();
  }
  again.step(Rows{torch::ones({7, 4}), torch::ones({7, 8})});
  again.restore(former);
  CHECK(same_state(again.state(), before));
  former = before;
  former.erase("ikebana.EMA.0.weight.average");
  CHECK(test::contains(test::message_of<BadState>([&] { again.restore(former); }),
                       "`ikebana.EMA.0.weight.average` is missing"));
}

TEST_CASE("EMA: a weight or buffer that changed its shape or dtype is an error that names it") {
  auto message = [](auto change) {
    torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
    Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}, EMA{.use_buffers = true}};
    auto rows = [&] { return torch::ones({2, 4}, model->parameters()[0].scalar_type()); };
    trainer.step(Rows{rows(), rows()});
    change(*model);
    auto text = test::message_of<BadModel>([&] { trainer.step(Rows{rows(), rows()}); });
    CHECK(text ==
          test::message_of<BadModel>([&] { trainer.evaluate(std::vector{Rows{rows(), rows()}}); }));
    return text;
  };
  auto text = message([](auto& model) { model.to(at::kDouble); });
  CHECK(test::contains(text, "`0.weight`"));
  text = message([](auto& model) { model.buffers()[2].set_data(torch::ones({1}, at::kLong)); });
  CHECK(test::contains(text, "`1.num_batches_tracked`"));
}

TEST_CASE("EMA: with use_buffers, sparse and expanded buffers are the model's own") {
  auto model = net();
  at::Tensor graph = model->register_buffer("graph", torch::eye(3).to_sparse());
  at::Tensor ones = model->register_buffer("ones", torch::ones({1}).expand({4}));
  at::Tensor mean = model->register_buffer("mean", torch::zeros({}));
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5, .use_buffers = true}};
  for (int i = 0; i < 3; ++i) {
    graph.mul_(2), mean.add_(1);
    trainer.step(Rows{torch::ones({2, 4}), torch::ones({2, 8})});
  }
  auto state = trainer.state();
  trainer.with_full_weights(
      [&](auto&) {
        CHECK(test::same_bits(graph.to_dense(), torch::eye(3) * 8));
        CHECK(test::same_bits(ones, torch::ones({4})));
        CHECK(mean.item<double>() == 2.25);
      },
      {.averaged = true});
  graph.zero_(), mean.zero_();
  trainer.restore(state);
  CHECK(trainer.state().at("mean").item<double>() == 2.25);
  CHECK(test::same_bits(graph.to_dense(), state.at("graph").to_dense()));
}

}  // namespace guarantees::average_wide
