#include <ikebana/checkpoint/frame/unit_state.hpp>
#include "guarantees.hpp"

namespace gpu {

namespace nets_parts {

struct Rows {
  at::Tensor input, target;
};

/// A convolution with batch norm, in channels_last.
struct StageImpl : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{8};
  StageImpl() { register_module("conv", conv), register_module("norm", norm); }
  at::Tensor forward(const at::Tensor& x) { return x + at::relu(norm(conv(x))); }
};
TORCH_MODULE(Stage);

struct ImagesImpl : torch::nn::Module {
  using units = Units<Stage>;
  torch::nn::Conv2d stem{torch::nn::Conv2dOptions(3, 8, 3)};
  std::vector<Stage> stages;
  torch::nn::Linear head{8, 5};
  ImagesImpl() {
    register_module("stem", stem), register_module("head", head);
    for (int i = 0; i < 3; ++i)
      stages.push_back(register_module("stage" + std::to_string(i), Stage()));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& images) {
    at::Tensor x = stem(images.contiguous(at::MemoryFormat::ChannelsLast));
    for (Stage& stage : stages) x = run(stage, x);
    return head(x.mean({2, 3}));
  }
};
TORCH_MODULE(Images);

/// A recurrent layer with a dropout of its own after it.
struct RecurrentImpl : torch::nn::Module {
  torch::nn::LSTM lstm;
  torch::nn::Dropout drop{0.2};
  explicit RecurrentImpl(double between_layers = 0)
      : lstm(
            torch::nn::LSTMOptions(6, 12).num_layers(2).batch_first(true).dropout(between_layers)) {
    register_module("lstm", lstm), register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return drop(std::get<0>(lstm->forward(x))); }
};
TORCH_MODULE(Recurrent);

struct SequencesImpl : torch::nn::Module {
  using units = Units<Recurrent>;
  Recurrent recurrent;
  torch::nn::Linear head{12, 5};
  explicit SequencesImpl(double between_layers = 0) : recurrent(between_layers) {
    register_module("recurrent", recurrent), register_module("head", head);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return head(run(recurrent, x).select(1, -1));
  }
};
TORCH_MODULE(Sequences);

template <class Model, class... Policies>
Trace trained_here(Model model, at::IntArrayRef sizes, Policies... policies) {
  model->to(device());
  Trainer trainer{model, adamw, CrossEntropyLoss{}, policies...};
  torch::manual_seed(5);
  std::vector<Rows> batches;
  for (int i = 0; i < 3; ++i)
    batches.push_back({torch::randn(sizes), torch::randint(5, {sizes[0]}, at::kLong)});
  Trace trace = trained(trainer, batches);
  for (const auto& b : model->buffers()) trace.parameters.push_back(b.cpu());
  return trace;
}

}  // namespace nets_parts
using namespace nets_parts;

TEST_CASE("convolutions with batch norm: recomputing changes no bit, with cuDNN's autotuning too") {
  const Deterministic deterministic;
  for (bool autotuning : {false, true}) {
    at::globalContext().setBenchmarkCuDNN(autotuning);
    auto make = [] {
      torch::manual_seed(3);
      return Images();
    };
    const Trace plain = trained_here(make(), {6, 3, 12, 12});
    CHECK(same_bits(trained_here(make(), {6, 3, 12, 12}, Checkpoint<Full>{}), plain));
  }
  at::globalContext().setBenchmarkCuDNN(false);
}
TEST_CASE("recurrent layers: recomputing changes no bit, also where a state is kept") {
  const Deterministic deterministic;
  auto make = [] {
    torch::manual_seed(3);
    return Sequences();
  };
  const Trace plain = trained_here(make(), {6, 7, 6});
  CHECK(same_bits(trained_here(make(), {6, 7, 6}, Checkpoint<Full>{}), plain));
  CHECK(same_bits(trained_here(make(), {6, 7, 6}, Checkpoint<Full>{}, Precision<BF16Weights>{}),
                  trained_here(make(), {6, 7, 6}, Precision<BF16Weights>{})));
}
TEST_CASE("a checkpoint refuses random numbers that only cuDNN can draw") {
  const c10::Device cuda(at::kCUDA, 0);
  CHECK(ikebana::detail::cudnn_dropout_in(*Recurrent(0.1), cuda) == "lstm");
  CHECK(ikebana::detail::cudnn_dropout_in(*Recurrent(0), cuda).empty());
  CHECK(ikebana::detail::cudnn_dropout_in(*Recurrent(0.1), at::kCPU).empty());
  auto train = [] { trained_here(Sequences(0.1), {6, 7, 6}, Checkpoint<Full>{}); };
  if (!on_cuda()) return train();
  const auto message = test::message_of<BadModel>(train);
  CHECK(test::contains(message, "`lstm` in `recurrent` drops out between its layers by cuDNN"));
}

}  // namespace gpu
