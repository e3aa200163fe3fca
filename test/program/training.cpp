// Programs of Python train and are evaluated as in Python: reference.py has exported each model,
// trained it, and written its batches and what it reached.
#include "program/case.hpp"

namespace program {

/// Returns true if this LibTorch is of Python's version, so that it has Python's bits. A build may
/// add to the version, as `+cpu`.
bool has_same_version(const Case& one) {
  return std::string_view(TORCH_VERSION).starts_with(one.metadata.at("torch"));
}

/// Returns true if the bits are Python's. A LibTorch of another version may round otherwise, and
/// then it returns true for what is this close.
bool is_reached(const Case& one, const at::Tensor& found, const at::Tensor& expected,
                double closeness = 1e-4) {
  if (has_same_version(one)) return test::same_bits(found, expected);
  return at::allclose(found, expected, closeness, closeness);
}
bool is_reached(const Case& one, double found, const at::Tensor& expected,
                double closeness = 1e-4) {
  return is_reached(one, at::scalar_tensor(found, at::kDouble), expected, closeness);
}

/// Trains on all batches, and compares each loss, weight and buffer with Python's.
template <class T>
void trains_as_python(T& trainer, const Case& one, const std::string& prefix) {
  const bool is_half = prefix == "half.";
  one.seed("training");
  const at::Tensor losses = one.file.at(prefix + "losses");
  for (std::size_t step = 0; step < one.batches.size(); ++step) {
    CAPTURE(step);
    const double loss = trainer.step(one.batches[step]).loss();
    const bool is_same =
        is_reached(one, loss, losses[static_cast<std::int64_t>(step)], is_half ? 1e-2 : 1e-4);
    CHECK_MESSAGE(is_same, loss);
    if (!is_same) return;
  }
  if (is_half && !has_same_version(one)) return;
  StateDict found;
  for (const auto& p : trainer.model()->named_parameters()) found[p.key()] = p.value().detach();
  for (const auto& b : trainer.model()->named_buffers()) found[b.key()] = b.value();
  for (const auto& [name, value] : part(one.file, prefix + "final.")) {
    CAPTURE(name);
    CHECK(is_reached(one, found[name], value));
  }
}

template <class T>
double evaluated(T& trainer, const Case& one) {
  one.seed("evaluation");
  return trainer.evaluate(one.held_out).loss;
}

TEST_CASE("programs train and are evaluated, before and after it, to the bit as in Python") {
  each([](const Case& one) {
    Trainer trainer{one.program(), one.objective, one.adamw};
    const at::Tensor expected = one.file.at("evaluations");
    CHECK(is_reached(one, evaluated(trainer, one), expected[0]));
    trains_as_python(trainer, one, "");
    CHECK(is_reached(one, evaluated(trainer, one), expected[1]));
    export_program(trainer.model(), folder() / (one.name + ".trained.pt2"));  // Python reads it
  });
}

TEST_CASE("programs: the floating-point operations of a step are those that Python counts") {
  each([](const Case& one) {
    Trainer trainer{one.program(), one.objective, one.adamw};
    const FlopCount counted = count_flops([&] { trainer.step(one.batches[0]); });
    CHECK(counted.total == std::stoll(one.metadata.at("flops")));
    CHECK(counted.total > 0);
  });
}

TEST_CASE("programs train under Precision<BF16> to the bit as under Python's autocast") {
  each([](const Case& one) {
    if (!one.file.count("half.losses")) return;
    Trainer trainer{one.program(), one.objective, one.adamw,
                    Precision<BF16>{.cpu_products = CPUProducts::Native}};
    trains_as_python(trainer, one, "half.");
  });
}

TEST_CASE("programs with a graph of training alone are evaluated by it, to the bit as in Python") {
  each([](const Case& one) {
    if (!std::filesystem::exists(folder() / (one.name + ".train.pt2"))) return;
    Trainer trainer{one.program(".train"), one.objective, one.adamw};
    CHECK(is_reached(one, evaluated(trainer, one), one.file.at("evaluations")[0]));
    trains_as_python(trainer, one, "");
    CHECK(is_reached(one, evaluated(trainer, one), one.file.at("evaluations")[1]));
  });
}

TEST_CASE("programs with a graph of evaluation alone are refused by a trainer") {
  each([](const Case& one) {
    if (!std::filesystem::exists(folder() / (one.name + ".eval.pt2"))) return;
    const auto step = [&](const ProgramOptions& options) {
      Trainer trainer{load_program(folder() / (one.name + ".eval.pt2"), options), one.objective,
                      one.adamw};
      trainer.step(one.batches[0]);
    };
    const std::string text = test::message_of<BadModel>([&] { step({}); });
    CHECK_MESSAGE(test::contains(text, "evaluation_graph"), text);
    step({.evaluation_graph = true});
  });
}

struct Rows {
  at::Tensor input, target;
};
TEST_CASE("programs take the library's objectives, and batches with a name for the input") {
  const auto found = std::find_if(cases().begin(), cases().end(),
                                  [](const Case& one) { return one.name == "gpt"; });
  if (found == cases().end()) return;
  Trainer trainer{found->program(), CrossEntropyLoss{.class_dim = -1}, found->adamw};
  for (std::size_t step = 0; step < 5; ++step) {
    const Batch& batch = found->batches[step];
    const double loss = trainer.step(Rows{batch.at("tokens"), batch.at("target")}).loss();
    CHECK(is_reached(*found, loss, found->file.at("losses")[static_cast<std::int64_t>(step)]));
  }
}

}  // namespace program
