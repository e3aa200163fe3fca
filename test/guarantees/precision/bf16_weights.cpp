// FP32 master weights with BF16 gathered parameters equal the loop written by hand, to the bit.
// What is saved, shown and restored are the master weights.
#include "test.hpp"

#include "guarantees/recipes/nets.hpp"

namespace guarantees::bf16_weights {

/// Convolution, batch norm with its buffers, group norm.
struct StemImpl : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(2, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::GroupNorm group{torch::nn::GroupNormOptions(2, 8)};
  StemImpl() {
    register_module("conv", conv), register_module("norm", norm);
    register_module("group", group);
  }
  at::Tensor forward(at::Tensor x) { return at::relu(group(norm(conv(x)))); }
};
TORCH_MODULE(Stem);
struct ConvolvedImpl : torch::nn::Module {
  using units = Units<Stem>;
  Stem stem;
  torch::nn::Linear head{8 * 5 * 5, 3};
  ConvolvedImpl() { register_module("head", head), register_module("stem", stem); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = head(run(stem, batch.input).flatten(1));
    return {at::cross_entropy_loss(y, batch.target, {}, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Convolved);

struct Text {
  static auto model() { return language(); }
  static auto batches() { return texts(5); }
};
struct Images {
  static auto model() {
    return seeded([] { return Convolved(); });
  }
  static auto batches() {
    torch::manual_seed(5);
    std::vector<Rows> all;
    for (int i = 0; i < 5; ++i)
      all.push_back({torch::randn({8, 2, 5, 5}), torch::randint(3, {8}, at::kLong)});
    return all;
  }
};

/// The loop by hand: BF16 copies compute, FP32 master weights sum gradients and are updated.
template <class Model>
struct ByHand {
  Model model;
  std::vector<at::Tensor> copies = model->parameters();
  Tensors masters, m, v, steps, gradients{copies.size()};

  explicit ByHand(Model given) : model(std::move(given)) {
    for (auto& p : copies) {
      masters.push_back(p.detach().clone());
      m.push_back(at::zeros_like(masters.back())), v.push_back(at::zeros_like(masters.back()));
      steps.push_back(at::zeros({}));
      if (p.dim() >= 2) p.set_data(p.to(at::kBFloat16));
    }
  }
  at::Tensor sum_of(const Rows& part) {
    hand::Autocast autocast(at::kBFloat16);
    return model->loss(plain, part).sum;
  }
  void bring_home() {
    for (std::size_t i = 0; i < masters.size(); ++i) {
      at::Tensor g = copies[i].grad().to(at::kFloat);
      gradients[i] = gradients[i].defined() ? gradients[i] + g : g;
      copies[i].mutable_grad().reset();
    }
  }
  void update(const std::optional<at::Tensor>& divisor) {
    torch::NoGradGuard no_grad;
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(masters, gradients, m, v, {}, steps, 1e-2, 0.9, 0.999, 1e-2, 1e-8, false,
                      false, divisor);
    for (std::size_t i = 0; i < masters.size(); ++i) copies[i].copy_(masters[i]);
    for (auto& g : gradients) g.reset();
  }
};

template <class Model>
Trace by_hand(Model model, const std::vector<Rows>& data, std::int64_t parts, bool clips) {
  hand::Products products(at::kBFloat16);
  ByHand<Model> hand(model);
  torch::manual_seed(11);
  Trace trace;
  for (const auto& batch : data) {
    auto count = static_cast<double>(batch.target.numel());
    at::Tensor total;
    for (const auto& part : split(batch, parts)) {
      at::Tensor sum = hand.sum_of(part);
      sum.div(count).backward();
      total = total.defined() ? total + sum.detach() : sum.detach();
      hand.bring_home();
    }
    std::optional<at::Tensor> divisor;
    if (clips) divisor = guarantees::hand::clipping(hand.gradients, at::ones({}), 0.5).first;
    hand.update(divisor);
    trace.push_back(total / count);
  }
  for (const auto& t : hand.masters) trace.push_back(t);
  for (const auto& b : model->buffers()) trace.push_back(b.clone());
  trace.push_back(torch::rand({4}));
  return trace;
}

/// Returns the trace with the master weights' values in the place of the gathered parameters'.
template <class Work, class... Words>
Trace by_recipe() {
  auto model = Work::model();
  const auto data = Work::batches();  // draws random numbers
  Trainer<decltype(model), AdamW, Precision<BF16Weights>, Words...> trainer(model,
                                                                            AdamW{.lr = 1e-2});
  torch::manual_seed(11);
  Trace trace;
  for (const auto& batch : data) trace.push_back(trainer.step(batch).mean());
  trainer.with_full_weights([&](auto& whole) {
    for (const auto& p : whole->parameters()) trace.push_back(p.detach().clone());
  });
  for (const auto& b : model->buffers()) trace.push_back(b.clone());
  trace.push_back(torch::rand({4}));
  return trace;
}

using Trained = Trainer<Language, AdamW, Precision<BF16Weights>>;

TEST_CASE_TEMPLATE("BF16 weights with FP32 master weights equal the loop written by hand", Work,
                   Text, Images) {
  auto hand = [](std::int64_t parts) {
    return by_hand(Work::model(), Work::batches(), parts, false);
  };
  auto once = hand(1);
  CHECK(moved(once, 5));
  CHECK(test::same_bits(by_recipe<Work>(), once));
  CHECK(test::same_bits(by_recipe<Work, Checkpoint<Full>>(), once));
  CHECK(test::same_bits(by_recipe<Work, Accumulate<4>>(), hand(4)));
  CHECK(test::same_bits(by_recipe<Work, Accumulate<4>, Checkpoint<Full>>(), hand(4)));
}

TEST_CASE("gradients of BF16 parameters are clipped in FP32") {
  auto clipped = [](ClipGradNorm clip) {
    auto model = Images::model();
    const auto data = Images::batches();
    Trainer trainer{model, AdamW{.lr = 1e-2}, Precision<BF16Weights>{}, clip, ConstantLR{}};
    torch::manual_seed(11);
    for (const auto& batch : data) trainer.step(batch);
    return trainer.with_full_weights([](Convolved& whole) { return parameters_of(whole); });
  };
  auto hand = by_hand(Images::model(), Images::batches(), 1, true);
  Tensors masters(hand.begin() + 5, hand.begin() + 5 + 8);
  CHECK(test::same_bits(clipped({.max_norm = 0.5}), masters));
}

TEST_CASE(
    "gathered parameters are BF16 and keep their memory, those that keep_fp32 names stay FP32") {
  Language model = language();
  Precision<BF16Weights> values{.keep_fp32 = named("*norm*")};
  Trained trainer(model, values);
  std::vector<const void*> memory;
  for (int step = 0; step < 3; ++step) {
    std::vector<const void*> now;
    for (auto& item : model->named_parameters()) {
      bool kept = item.key().find("norm") != std::string::npos;
      CHECK((item.value().scalar_type() == (kept ? at::kFloat : at::kBFloat16)));
      now.push_back(item.value().const_data_ptr());
    }
    if (step > 0) CHECK(now == memory);
    memory = now;
    if (step == 0) CHECK_NOTHROW(trainer.evaluate(texts(1)));
  }
}

TEST_CASE("master weights are saved in FP32, shown and restored in the model's own dtype") {
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    CAPTURE(c10::toString(type));
    Language model = language();
    for (auto& p : model->parameters())
      if (p.dim() >= 2) p.set_data(p.to(type));
    Tensors shown;
    {
      Trained trainer(model, AdamW{.lr = 1e-5});  // too small a change for BF16
      auto before = trainer.state();
      for (const auto& batch : texts(2)) trainer.step(batch);
      auto state = trainer.state();
      for (const auto& [name, t] : state)
        if (!name.starts_with("ikebana.") && t.is_floating_point())
          CHECK((t.scalar_type() == at::kFloat));
      CHECK_FALSE(same_state(before, state));
      shown = trainer.with_full_weights([](Language& whole) { return parameters_of(whole); });
      if (type == at::kFloat) CHECK(test::same_bits(shown[0], state.at("embed.weight")));
      CHECK((model->embed->weight.scalar_type() == at::kBFloat16));
    }
    CHECK(test::same_bits(parameters_of(model), shown));
    CHECK((model->embed->weight.scalar_type() == type));
    CHECK(model->embed->weight.is_leaf());
  }
}

TEST_CASE("a write to shown master weights stays, in them and in the gathered parameters") {
  Language model = language();
  Trained trainer(model);
  trainer.step(texts(1)[0]);
  trainer.with_full_weights([](Language& whole) {
    torch::NoGradGuard no_grad;
    whole->embed->weight.fill_(1.001);
  });
  CHECK(trainer.state().at("embed.weight")[0][0].item<float>() == 1.001f);
  CHECK(test::same_bits(model->embed->weight, at::full_like(model->embed->weight, 1.001)));
}

TEST_CASE("a run resumed from saved master weights continues to the bit") {
  auto data = texts(4);
  Trained whole(language());
  for (int i : {0, 1}) whole.step(data[i]);
  auto state = whole.state();
  Trace straight;
  for (int i : {2, 3}) straight.push_back(whole.step(data[i]).mean());
  Trained resumed(language(), AdamW{.lr = 7});
  resumed.step(data[3]);
  resumed.restore(state);
  for (int i : {2, 3}) CHECK(test::same_bits(resumed.step(data[i]).mean(), straight[i - 2]));
  CHECK(same_state(resumed.state(), whole.state()));
}

TEST_CASE("backward through a graph from before an update is an error") {
  Language model = language();
  Trained trainer(model);
  hand::Autocast autocast(at::kBFloat16);
  auto stale = [&] { return model->loss(plain, texts(1)[0]).sum; };
  auto sum = stale();
  CHECK_NOTHROW(sum.backward());
  sum = stale();
  for (auto p : model->parameters()) p.mutable_grad().reset();
  trainer.step(texts(1)[0]);
  CHECK(test::contains(test::message_of([&] { sum.backward(); }), "modified by an inplace"));
}

}  // namespace guarantees::bf16_weights
