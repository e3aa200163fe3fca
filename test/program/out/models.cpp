// Writes the models of examples/models as programs, each with an input and its output, for
// models.py. The call is `models FOLDER`. Every model has weights that differ from 0 in its head.
#include <torch/version.h>
// Wheels of other versions have no functions of nativert, though some have its headers.
#if TORCH_VERSION_MINOR >= 9 && TORCH_VERSION_MINOR <= 11
#include <torch/nativert/ModelRunnerHandle.h>
#define HAS_NATIVERT 1
#endif

#include <ikebana/program.hpp>
#include <ikebana/state/weights.hpp>
#include <iostream>

#include "../../../examples/models/models.hpp"

namespace {

using ikebana::DynamicDim;
using Dims = std::vector<DynamicDim>;

std::filesystem::path folder;

/// Inputs by the names of their arguments.
using Inputs = std::vector<at::Tensor>;

template <class Model>
at::Tensor output(Model& model, const Inputs& inputs) {
  const at::NoGradGuard no_grad;
  if constexpr (requires { model->forward(ikebana::plain, inputs[0], inputs[0]); })
    return model->forward(ikebana::plain, inputs[0], inputs[1]);
  else return model->forward(ikebana::plain, inputs[0]);
}
void save(const std::string& name, const Inputs& inputs, const at::Tensor& result) {
  ikebana::StateDict all{{"output", result.contiguous()}};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    all["input_" + std::to_string(i)] = inputs[i].contiguous();
  ikebana::save_tensors(folder / (name + ".safetensors"), all);
}
void check(bool is_right, const std::string& what) {
  if (is_right) return;
  std::cerr << what << '\n';
  std::exit(1);
}
/// Checks that nativert computes `expected`. It has kernels of its own for some operators.
void check_served([[maybe_unused]] const std::string& name, [[maybe_unused]] const Inputs& inputs,
                  [[maybe_unused]] const at::Tensor& expected) {
#ifdef HAS_NATIVERT
  torch::nativert::ModelRunnerHandle runner((folder / (name + ".pt2")).string(), "model");
  const at::Tensor found = runner.run({inputs.begin(), inputs.end()}, {}).toTensor();
  const double apart = ((found - expected).abs().max() / expected.abs().max()).item<double>();
  check(apart <= 1e-6, name + ": nativert differs");
#endif
}
/// Writes the program with the outputs at the example's sizes and at others, which were never
/// recorded; and runs it by nativert.
template <class Model, class Example>
void write(const std::string& name, Model model, const Example& example, const Inputs& inputs,
           const Inputs& others, const Dims& dynamic) {
  model->eval();
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : model->parameters())
      if (!p.any().template item<bool>()) p.normal_(0, 0.1);
  }
  const at::Tensor result = output(model, inputs), other = output(model, others);
  save(name, inputs, result);
  save(name + ".other", others, other);
  const auto path = folder / (name + ".pt2");
  model->train();
  const auto done = ikebana::export_program(model, example, path, {.dynamic = dynamic});
  check(model->is_training(), name + ": the model is no longer in training mode");
  check(done.nodes > 0 && done.constants.empty(), name + ": has constants");
  check_served(name, inputs, result);
  check_served(name, others, other);
}
template <class Model>
void write(const std::string& name, Model model, const at::Tensor& input, const at::Tensor& other,
           const Dims& dynamic) {
  write(name, model, input, {input}, {other}, dynamic);
}

void write_models_of_tokens() {
  {
    const GPTConfig c{.layers = 2, .width = 32, .heads = 4, .context = 32};
    write("gpt", GPT(c), random_batch(c, 4, 12).input, random_batch(c, 9, 31).input,
          {{"input", 0, "rows"}, {"input", 1, "length", 2, 32}});
  }
  {
    LlamaConfig c;
    c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 2;
    write("llama", Llama(c), random_batch(c, 4, 12).input, random_batch(c, 9, 31).input,
          {{"input", 0, "rows"}, {"input", 1, "length"}});
  }
  {
    const LSTMConfig c{.layers = 2, .width = 16};
    write("lstm", LSTMLanguageModel(c), random_batch(c, 4, 12).input, random_batch(c, 9, 31).input,
          {{"input", 0, "rows"}, {"input", 1, "length"}});
  }
}

void write_models_of_images() {
  {
    const ResNetConfig c{.blocks = 1, .stages = 3, .width = 8};
    write("resnet", ResNet(c), random_batch(c, 4, 16).input, random_batch(c, 9, 23).input,
          {{"input", 0, "rows"}, {"input", 2, "height"}, {"input", 3, "width"}});
  }
  {
    const UNetConfig c{.width = 4};
    write("unet", UNet(c), random_batch(c, 4, 16).input, random_batch(c, 9, 48).input,
          {{"input", 0, "rows"},
           {.input = "input", .dim = 2, .name = "height", .min = 8, .multiple_of = 8},
           {.input = "input", .dim = -1, .name = "width", .min = 8, .multiple_of = 8}});
  }
  {
    ViTConfig c;
    c.layers = 2, c.width = 24;
    write("vit", ViT(c), random_batch(c, 4).input, random_batch(c, 9).input, {{"input", 0}});
  }
  {
    MixerConfig c;
    c.layers = 2, c.width = 16, c.tokens_width = 8, c.channels_width = 32;
    write("mixer", Mixer(c), random_batch(c, 4).input, random_batch(c, 9).input, {{"input", 0}});
  }
}

void write_model_of_clicks() {
  DLRMConfig c;
  c.rows = std::vector<std::int64_t>(4, 50), c.bottom = {16}, c.top = {16};
  const auto batch = random_batch(c, 4, 2), other = random_batch(c, 9, 2);
  write("dlrm", DLRM(c), std::tuple(batch.dense, batch.sparse), {batch.dense, batch.sparse},
        {other.dense, other.sparse}, {{"input_0", 0, "rows"}, {"input_1", 0, "rows"}});
}

}  // namespace

int main(int, char** argv) {
  folder = argv[1];
  torch::manual_seed(0);
  write_models_of_tokens();
  write_models_of_images();
  write_model_of_clicks();
}
