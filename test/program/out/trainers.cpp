// Tests that trainers are exported as they evaluate: with averages, casts and layouts of their
// recipes. load_program runs what was written.
#include <ikebana.hpp>
#include <ikebana/program.hpp>

#include "test.hpp"

namespace test::program_trainers {

using namespace ikebana;

struct PartImpl : torch::nn::Module {
  PartImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
  }
  at::Tensor forward(const at::Tensor& x) { return x + at::gelu(norm(conv(x))); }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(Part);

struct Images {
  at::Tensor input, target;
};
/// Convolutions, a dropout, and an embedding, which autocast leaves in its dtype.
struct NetImpl : torch::nn::Module {
  using units = Units<Part>;

  NetImpl() {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    for (int i = 0; i < 2; ++i)
      parts.push_back(register_module("part" + std::to_string(i), Part()));
    table = register_module("table", torch::nn::Embedding(5, 4));
    drop = register_module("drop", torch::nn::Dropout(0.5));
    head = register_module("head", torch::nn::Linear(4, 5));
    head->weight = table->weight;  // tied, and so under two names only in the head
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& images) {
    at::Tensor x = first(images);
    for (Part& part : parts) x = run(part, x);
    const at::Tensor ids = at::arange(x.size(0), at::kLong).remainder(5);
    return head(drop(x.mean({2, 3})) + table(ids));
  }

  torch::nn::Conv2d first{nullptr};
  std::vector<Part> parts;
  torch::nn::Embedding table{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

Images batch(std::int64_t rows = 6, std::int64_t size = 9) {
  return {at::randn({rows, 3, size, size}), at::randint(5, {rows}, at::kLong)};
}
const auto path = std::filesystem::temp_directory_path() / "ikebana_trainer.pt2";

/// Trains, exports, compares with `predict` at sizes that were not recorded, and trains on as a
/// trainer that was not exported.
template <class... Policies>
void check(const Policies&... policies) {
  const auto make = [&] {
    torch::manual_seed(0);
    return Trainer{Net(), CrossEntropyLoss{}, AdamW{.lr = 1e-2}, policies...};
  };
  auto trainer = make(), other = make();
  torch::manual_seed(1);
  const Images data = batch(), more = batch(11, 13);
  const auto steps = [&](auto& t) {
    torch::manual_seed(2);
    for (int i = 0; i < 3; ++i) t.step(data);
  };
  steps(trainer), steps(other);
  export_program(trainer, data, path,
                 {{{"input", 0, "rows"}, {"input", 2, "height", 5}, {"input", 3, "width", 5}}});
  for (const Images& one : {data, more}) {
    Program program = load_program(path);
    const at::NoGradGuard no_grad;
    const at::Tensor result = program->forward(one.input);
    INFO(trainer.describe());
    CHECK(test::worst_relative({result}, {trainer.predict(one)}) <= 1e-6);
  }
  steps(trainer), steps(other);
  CHECK(test::same_state(trainer.state(), other.state()));
  CHECK(trainer.model()->is_training());
}

TEST_CASE(
    "export_program: a trainer's program computes what predict does, and leaves it as it was") {
  check();
  check(EMA{.decay = 0.5});
  check(Precision<BF16>{});
  check(Precision<BF16Weights>{});
  check(Precision<BF16True>{});
  check(Layout<ChannelsLast>{});
  check(Offload<CPU>{});
  check(Checkpoint<Full>{}, EMA{.decay = 0.5}, Precision<BF16Weights>{});
}

TEST_CASE("export_program: inputs and outputs have the names of structs and maps") {
  struct Given {
    at::Tensor left, right;
  };
  struct Made {
    at::Tensor sum;
    std::vector<at::Tensor> halves;
  };
  struct Pair : torch::nn::Module {
    Made forward(const Given& in) { return {in.left + in.right, in.left.chunk(2, 1)}; }
  } pair;
  const at::Tensor x = at::randn({6, 4});
  const auto done =
      export_program(pair, Given{x, x + 1}, path, {{{"left", 0, "rows"}, {"right", 0, "rows"}}});
  CHECK(done.nodes == 2);
  const ProgramOutputs made = load_program(path)->outputs(plain, Given{x, x});
  CHECK(same_bits(made.at("sum"), x + x));
  CHECK(same_bits(made.at("halves[1]"), x.narrow(1, 2, 2)));
}

}  // namespace test::program_trainers
