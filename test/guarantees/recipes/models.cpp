// The models of examples/models: recomputing changes no bit of them, halves of a batch train them
// as the whole, all of their parameters are trained, and they are as large as published.
#include "test.hpp"

#include <variant>

#include "../../../examples/models/models.hpp"
#include "counting.hpp"
#include "guarantees/guarantees.hpp"

namespace guarantees::models {

using Batch = std::variant<Tokens, Images, Clicks>;

/// Any of the models, so that each recipe is compiled once for all of them.
struct AnyImpl : torch::nn::Module {
  using units = Units<::Block, LlamaBlock, ViTBlock, MixerBlock, BasicBlock, UNetDown, UNetUp,
                      LSTMLayer, DLRMTables, DLRMLayers>;
  virtual Loss loss(Runner& run, const Batch& batch) = 0;
  virtual Loss loss(Plain run, const Batch& batch) = 0;
  virtual std::int64_t count(const Batch& batch) const = 0;
};
using Any = std::shared_ptr<AnyImpl>;

template <class Model, class Kind>
struct OfImpl : AnyImpl {
  Model model{nullptr};
  template <class Config>
  explicit OfImpl(const Config& config) {
    model = register_module("model", Model(config));
  }
  Loss loss(Runner& run, const Batch& batch) override {
    return model->loss(run, std::get<Kind>(batch));
  }
  Loss loss(Plain run, const Batch& batch) override {
    return model->loss(run, std::get<Kind>(batch));
  }
  std::int64_t count(const Batch& batch) const override {
    return model->count(std::get<Kind>(batch));
  }
};

struct Case {
  std::string name;
  bool batch_norm;
  std::function<Any()> make;
  std::function<Batch(std::int64_t rows)> batch;
};

template <class Model, class Config, class... Sizes>
Case of(std::string name, const Config& c, Sizes... sizes) {
  using Kind = decltype(random_batch(c, 1, sizes...));
  constexpr bool norm = std::is_same_v<Model, ResNet> || std::is_same_v<Model, UNet>;
  return {std::move(name), norm,
          [=]() -> Any { return seeded([&] { return std::make_shared<OfImpl<Model, Kind>>(c); }); },
          [=](std::int64_t rows) -> Batch { return random_batch(c, rows, sizes...); }};
}

std::vector<Case> without_dropout() {
  LlamaConfig llama{.vocab_size = 32, .hidden_size = 16, .intermediate_size = 24};
  llama.num_hidden_layers = llama.num_attention_heads = 2, llama.num_key_value_heads = 1;
  return {
      of<GPT>("GPT", GPTConfig{.layers = 2, .width = 16, .heads = 2, .context = 8}, 8),
      of<Llama>("Llama", llama, 8),
      of<ViT>("ViT", ViTConfig{.image = 8, .layers = 2, .width = 16, .heads = 2}),
      of<Mixer>("Mixer", MixerConfig{.image = 8, .layers = 2, .width = 16, .tokens_width = 8}),
      of<ResNet>("ResNet", ResNetConfig{.blocks = 1, .stages = 2, .width = 4}, 8),
      of<UNet>("UNet", UNetConfig{.width = 4, .depth = 2}, 8),
      of<LSTMLanguageModel>("LSTM", LSTMConfig{.vocabulary = 32, .width = 8}, 8),
      of<DLRM>(
          "DLRM",
          DLRMConfig{.width = 4, .rows = {7, 5, 9}, .bottom = {8}, .top = {8}, .sparse = false}, 2),
  };
}
std::vector<Case> with_dropout() {
  return {
      of<GPT>("GPT", GPTConfig{2, 16, 2, 8, 0.3}, 8),
      of<ViT>("ViT", ViTConfig{8, 4, 3, 10, 2, 16, 2, 0.3}),
      of<LSTMLanguageModel>("LSTM", LSTMConfig{32, 2, 8, 0.3}, 8),
  };
}

std::vector<Batch> batches(const Case& model, std::initializer_list<std::int64_t> rows) {
  torch::manual_seed(5);
  std::vector<Batch> all;
  for (std::int64_t n : rows) all.push_back(model.batch(n));
  return all;
}
/// Converts to double precision. Integers stay integers.
Any wide(Any model) {
  model->to(at::kDouble);
  return model;
}
std::vector<Batch> wide(std::vector<Batch> all) {
  auto widen = [](at::Tensor& t, auto&&) { t = t.is_floating_point() ? t.to(at::kDouble) : t; };
  for (Batch& batch : all)
    std::visit([&](auto& value) { ikebana::detail::for_each_part(value, widen); }, batch);
  return all;
}

/// Plain gradient descent keeps every difference: another gradient gives other parameters.
template <class... Policies>
auto trainer_of(Any model) {
  return Trainer<AnyImpl, SGD, Policies...>(std::move(model), SGD{.lr = 0.05, .momentum = 0.5});
}

/// Trains and counts the operators of it.
template <class T>
Trace trained_under(test::Counting& counting, T trainer, const std::vector<Batch>& data) {
  const bridge::OperatorScope scope(counting);
  return trained(std::move(trainer), data);
}
/// Calls of operators that units compute in forward and in a recompute.
int products(const test::Counting& counting) {
  int calls = 0;
  for (const char* name :
       {"aten::mm", "aten::addmm", "aten::convolution", "aten::mkldnn_rnn_layer"})
    if (const auto found = counting.seen.find(name); found != counting.seen.end())
      calls += found->second;
  return calls;
}

TEST_CASE("models of the examples are recomputed to the bit, with batch norm and dropout") {
  auto cases = without_dropout();
  for (Case& model : with_dropout()) cases.push_back(std::move(model));
  for (const Case& model : cases) {
    INFO(model.name);
    const auto data = batches(model, {4, 3, 4});
    test::Counting once, again;
    const auto without = trained_under(once, trainer_of<>(model.make()), data);
    const auto with = trained_under(again, trainer_of<Checkpoint<Full>>(model.make()), data);
    CHECK(moved(without, 3));
    CHECK(test::same_bits(with, without));
    CHECK(products(again) > products(once));
  }
}

TEST_CASE("models of the examples train on two parts of a batch as on the whole") {
  for (const Case& model : without_dropout()) {
    if (model.batch_norm) continue;
    INFO(model.name);
    const auto data = wide(batches(model, {4, 3, 5}));
    auto whole = trained(trainer_of<>(wide(model.make())), data);
    auto parts = trained(trainer_of<Accumulate<2>>(wide(model.make())), data);
    whole.pop_back(), parts.pop_back();  // random numbers
    CHECK(moved(whole, 3));
    CHECK(test::worst_relative(parts, whole) < 1e-13);
  }
}

TEST_CASE("models of the examples train all of their parameters, and are evaluated") {
  for (const Case& model : without_dropout()) {
    INFO(model.name);
    const auto data = wide(batches(model, {4, 3}));
    auto trainer = trainer_of<>(wide(model.make()));
    for (const Batch& batch : data) trainer.step(batch);  // a head of zeros stops all gradients
    AnyImpl& trained = *trainer.model();

    trained.eval();
    const Loss first = trained.loss(plain, data[0]), second = trained.loss(plain, data[1]);
    const double count = first.count.value() + second.count.value();
    const double mean = (first.sum + second.sum).item<double>() / count;
    trained.train();
    CHECK(trainer.evaluate(data).loss == doctest::Approx(mean).epsilon(1e-12));

    trained.loss(plain, data[0]).sum.backward();
    for (const auto& item : trained.named_parameters()) {
      INFO(item.key());
      REQUIRE(item.value().grad().defined());
      CHECK(item.value().grad().abs().max().item<double>() > 0);
    }
  }
}

/// Returns the number of parameters.
template <class Model>
std::int64_t size_of(Model model) {
  std::int64_t all = 0;
  for (const auto& p : model->parameters()) all += p.numel();
  return all;
}

TEST_CASE("models of the examples have as many parameters as those that they are named after") {
  // vit_b_16 of torchvision and Mixer-B/16 of its authors, of whose 12 blocks 11 are left out.
  ViTConfig vit{.image = 224, .patch = 16, .classes = 1000, .layers = 1, .width = 768, .heads = 12};
  CHECK(size_of(ViT(vit)) == 86'567'656 - 11 * 7'087'872);
  MixerConfig mixer{.image = 224, .patch = 16, .classes = 1000, .layers = 1, .width = 768};
  mixer.tokens_width = 384, mixer.channels_width = 3072;
  CHECK(size_of(Mixer(mixer)) == 59'880'472 - 11 * 4'876'612);
  // They have projections, three channels in, and two classes out.
  CHECK(size_of(ResNet(ResNetConfig{})) == 272'474);
  CHECK(size_of(ResNet(ResNetConfig{.blocks = 2, .stages = 4, .width = 64})) == 11'173'962);
  CHECK(size_of(UNet(UNetConfig{.width = 64, .depth = 4})) == 31'037'698);
}

}  // namespace guarantees::models
