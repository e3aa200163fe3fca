// Writes models of examples/tasks as programs, each with its output, for tasks.py. The call is
// `tasks FOLDER`.
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <ikebana/program.hpp>
#include <iostream>
#include <numbers>
#include <random>

// Each task is a program of its own; here its names are in a namespace.
#define main task_main
namespace bert {
#include "../../../examples/tasks/bert.cpp"
}
namespace sac {
#include "../../../examples/tasks/sac.cpp"
}
namespace ddpm {
#include "../../../examples/tasks/ddpm.cpp"
}
namespace lstm {
#include "../../../examples/tasks/lstm.cpp"
}
#undef main

namespace {

std::filesystem::path folder;

/// Writes the program, and what the model returns after the seed 7.
template <class Model, class Example, class F>
void write(const std::string& name, Model model, const Example& example,
           const std::vector<ikebana::DynamicDim>& dynamic, const F& forward) {
  model->eval();
  ikebana::export_program(model, example, folder / (name + ".pt2"), {dynamic});
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  auto result = forward(model);
  ikebana::StateDict all;
  ikebana::detail::for_each_tensor(result, [&](const at::Tensor& t) {
    all["output_" + std::to_string(all.size())] = t.contiguous();
  });
  ikebana::save_tensors(folder / (name + ".safetensors"), all);
}

void write_all() {
  const auto ids = [](std::int64_t below) { return at::randint(below, {5, 6}, at::kLong); };
  // The labels are left out, which are no input of forward.
  const bert::Text text{ids(30), ids(2), ids(8), {}, at::ones({5, 6}, at::kBool)};
  std::vector<ikebana::DynamicDim> rows;
  for (const char* name : {"input_ids", "token_type_ids", "position_ids", "attention_mask"})
    rows.push_back({name, 0, "rows"}), rows.push_back({name, 1, "length"});
  write("bert", bert::Bert(), text, rows,
        [&](auto& model) { return model->forward(ikebana::plain, text); });

  const at::Tensor seen = at::randn({6, 3});
  write("sac", sac::Actor(), seen, {{"input", 0}},
        [&](auto& model) { return model->forward(seen); });

  const at::Tensor image = at::randn({5, 1, 8, 8}), t = at::arange(5);
  write("ddpm", ddpm::Denoiser(), std::tuple(image, t), {{"input_0", 0, "n"}, {"input_1", 0, "n"}},
        [&](auto& model) { return model->forward(image, t); });

  const at::Tensor letters = ids(10);
  lstm::Reader reader;
  write("lstm_begin", reader, std::tuple(letters, lstm::State()), {{"input_0", 0, "rows"}},
        [&](auto& model) { return model->forward(letters, {}); });
  const lstm::State state{{at::randn({1, 5, 64}), at::randn({1, 5, 64})}};
  write("lstm_next", reader, std::tuple(letters, state),
        {{"input_0", 0, "rows"}, {"input_1[0]", 1, "rows"}, {"input_1[1]", 1, "rows"}},
        [&](auto& model) { return model->forward(letters, state); });
}

}  // namespace

int main(int, char** argv) {
  folder = argv[1];
  torch::manual_seed(0);
  write_all();
}
