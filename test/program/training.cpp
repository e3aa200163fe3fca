// Programs of Python train as in Python: reference.py has exported each model, trained it, and
// written its batches and what it reached. Then the guarantees of recipes hold on them.
#include "test.hpp"

#include <sys/wait.h>

#include <csignal>
#include <ikebana/program.hpp>

#include "ranks/groups.hpp"
#include "state/folder.hpp"

namespace program {

using namespace ikebana;
using Batch = std::map<std::string, at::Tensor>;

/// Where reference.py has written.
std::filesystem::path folder() {
  const char* given = std::getenv("IKEBANA_PROGRAMS");
  return given ? given : IKEBANA_PROGRAMS;
}

/// The tensors whose names begin with `prefix`, without it.
StateDict part(const StateDict& all, const std::string& prefix) {
  StateDict found;
  for (const auto& [name, value] : all)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = value;
  return found;
}

std::vector<Batch> batches_of(const StateDict& all, const std::string& prefix) {
  std::vector<Batch> batches;
  for (const auto& [name, value] : part(all, prefix)) {
    const auto dot = name.find('.');
    const auto index = static_cast<std::size_t>(std::stoul(name.substr(0, dot)));
    if (batches.size() <= index) batches.resize(index + 1);
    batches[index][name.substr(dot + 1)] = value;
  }
  return batches;
}

/// The loss that Python computed, by name: of an output and the target, or the program's own.
struct Objective {
  std::string loss, output;

  template <class Run>
  Loss operator()(Run& run, Program& model, const Batch& batch) const {
    if (loss == "inside") return model->loss(run, batch);
    Batch inputs = batch;
    const at::Tensor target = inputs.extract("target").mapped();
    const at::Tensor found =
        output.empty() ? model->forward(run, inputs) : model->outputs(run, inputs).at(output);
    return of(found, target);
  }

 private:
  Loss of(const at::Tensor& found, const at::Tensor& target) const {
    if (loss == "mse") return {at::mse_loss(found, target, at::Reduction::Sum), target.numel()};
    if (loss == "bce")
      return {at::binary_cross_entropy_with_logits(found, target, {}, {}, at::Reduction::Sum),
              target.numel()};
    const bool last = loss == "cross_entropy.last";
    return {at::cross_entropy_loss(last ? found.flatten(0, -2) : found,
                                   last ? target.flatten() : target, {}, at::Reduction::Sum),
            (target != -100).sum().item<std::int64_t>()};
  }
};

/// A model of Python, and what Python's training of it reached.
struct Case {
  std::string name;
  StateDict file;
  Objective objective;
  AdamW adamw;
  std::vector<Batch> batches, held_out;
  Metadata metadata;

  explicit Case(const std::filesystem::path& path) : name(path.stem().string()) {
    TensorFile read = load_tensors(path);
    file = std::move(read.tensors), metadata = std::move(read.header.metadata);
    objective = {metadata.at("loss"), metadata.at("output")};
    adamw = {.lr = std::stod(metadata.at("lr"))};
    batches = batches_of(file, "batch."), held_out = batches_of(file, "held_out.");
  }
  Program program(const std::string& kind = "") const {
    return load_program(folder() / (name + kind + ".pt2"));
  }
  void seed(const std::string& what) const {
    torch::manual_seed(std::stoull(metadata.at("seed." + what)));
  }
  /// If no module is repeated, every module of the model is a unit.
  Program with_units() const {
    Program found = program();
    if (!found->unit_names().empty()) return found;
    return load_program(folder() / (name + ".pt2"), {.units = "*"});
  }
  template <class... Policies>
  auto trainer(Policies... policies) const {
    return Trainer{with_units(), objective, adamw, policies...};
  }
  /// The first steps of the training.
  std::vector<Batch> first(std::size_t steps) const {
    return {batches.begin(), batches.begin() + static_cast<std::ptrdiff_t>(steps)};
  }
};

/// All cases; those that draw or have batch norm are not the same on parts of a batch.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : std::filesystem::directory_iterator(folder()))
      if (file.path().extension() == ".safetensors") paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    std::vector<Case> found(paths.begin(), paths.end());
    REQUIRE(!found.empty());
    return found;
  }();
  return all;
}

/// Goes on with the next case after one that throws.
template <class F>
void each(F&& f) {
  for (const Case& one : cases()) {
    INFO(one.name);
    try {
      f(one);
    } catch (const std::exception& error) {
      FAIL_CHECK(std::string(error.what()));
    }
  }
}

/// True if this LibTorch is of Python's version, so that it has Python's bits.
bool has_same_version(const Case& one) { return one.metadata.at("torch") == TORCH_VERSION; }

/// True for the bits of Python. A LibTorch of another version may round otherwise: then true for
/// what is this close.
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

constexpr std::size_t few = 4;

/// Losses of the first steps, and what they have made of the model.
struct Trace {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;

  bool operator==(const Trace& other) const {
    return losses == other.losses && test::same_bits(weights, other.weights);
  }
};

/// `batch_of(batch)` is what the trainer is given of each.
template <class T, class F>
Trace trace_of(T&& trainer, const Case& one, F&& batch_of) {
  torch::manual_seed(11);
  Trace trace;
  for (const Batch& batch : one.first(few))
    trace.losses.push_back(trainer.step(batch_of(batch)).loss());
  trainer.with_full_weights([&](auto& model) {
    for (const auto& p : model->parameters()) trace.weights.push_back(p.detach().clone());
    for (const auto& b : model->buffers()) trace.weights.push_back(b.clone());
  });
  trace.weights.push_back(torch::rand({4}));
  return trace;
}
template <class T>
Trace trace_of(T&& trainer, const Case& one) {
  return trace_of(trainer, one, [](const Batch& batch) { return batch; });
}

TEST_CASE("programs are checkpointed and offloaded to the bit") {
  each([](const Case& one) {
    const Trace plain = trace_of(one.trainer(), one);
    CHECK(plain.losses[0] != plain.losses[few - 1]);
    CHECK(trace_of(one.trainer(Checkpoint<Full>{}), one) == plain);
    CHECK(trace_of(one.trainer(Checkpoint<Selective>{}), one) == plain);
    CHECK(trace_of(one.trainer(Offload<CPU>{}), one) == plain);
  });
}

/// A batch in as many parts as there are ranks, as Accumulate cuts it.
std::vector<Batch> parts_of(const Batch& batch, std::int64_t parts) {
  std::vector<Batch> all;
  const std::int64_t rows = batch.begin()->second.size(0);
  for (std::int64_t i = 0; i < parts; ++i)
    all.push_back(narrow(batch, i * rows / parts, rows / parts));
  return all;
}

TEST_CASE(
    "programs without units are one, and are checkpointed, offloaded and sharded to the bit") {
  each([](const Case& one) {
    const auto trainer = [&](auto... policies) {
      return Trainer{load_program(folder() / (one.name + ".pt2"), {.units = "none"}), one.objective,
                     one.adamw, policies...};
    };
    const Trace plain = trace_of(one.trainer(), one);
    CHECK(trace_of(trainer(), one) == plain);
    CHECK(trace_of(trainer(Checkpoint<Full>{}), one) == plain);
    CHECK(trace_of(trainer(Checkpoint<Selective>{}), one) == plain);
    CHECK(trace_of(trainer(Offload<CPU>{}), one) == plain);
    test::ranks::on_groups(1, [&](const ProcessGroup& group) {
      CHECK(trace_of(trainer(Shard<FSDP>{.process_group = group}), one) == plain);
    });
  });
}

TEST_CASE("programs accumulate to the bit what a range of microbatches gives") {
  each([](const Case& one) {
    const Trace cut = trace_of(one.trainer(Accumulate<4>{}), one);
    CHECK(trace_of(one.trainer(), one, [](const Batch& b) { return parts_of(b, 4); }) == cut);
  });
}

TEST_CASE("programs resume to the bit") {
  each([](const Case& one) {
    const auto file = std::filesystem::temp_directory_path() /
                      ("program-" + std::to_string(::getpid()) + ".state");
    auto whole = one.trainer(), half = one.trainer(), again = one.trainer();
    const auto batches = one.first(few);
    torch::manual_seed(11);
    for (const Batch& batch : batches) whole.step(batch);
    torch::manual_seed(11);
    half.step(batches[0]), half.step(batches[1]);
    half.save(file);
    torch::manual_seed(12);
    again.load(file);
    std::filesystem::remove(file);
    again.step(batches[2]), again.step(batches[3]);
    CHECK(test::same_state(again.state(), whole.state()));
  });
}

/// Trains the first steps of a case, and saves after each; `on_step` is called after it.
template <class T, class F>
void fit_first(T& trainer, const Case& one, const std::filesystem::path& states, F&& on_step) {
  torch::manual_seed(11);
  trainer.fit(one.first(few), {.on_step = [&](const Report&) { on_step(); },
                               .progress = false,
                               .save_to = states,
                               .save_every = 1,
                               .resume = true});
}

/// The process that is killed: this program, with the names of a case and of a folder.
constexpr const char* killed_case = "IKEBANA_KILLED_CASE";
constexpr const char* killed_states = "IKEBANA_KILLED_STATES";

TEST_CASE("programs: one of them is killed" * doctest::skip()) {
  const std::string name = std::getenv(killed_case);
  each([&](const Case& one) {
    if (one.name != name) return;
    auto trainer = one.trainer();
    fit_first(trainer, one, std::getenv(killed_states), [steps = std::size_t{0}]() mutable {
      if (++steps == few / 2 + 1) raise(SIGKILL);
    });
  });
}

TEST_CASE("programs resume to the bit after SIGKILL") {
  each([](const Case& one) {
    const test::Folder whole_states, states;
    const pid_t child = fork();
    if (child == 0) {
      setenv(killed_case, one.name.c_str(), 1);
      setenv(killed_states, states.path.c_str(), 1);
      execl("/proc/self/exe", "program_parity", "--no-skip", "-tc=programs: one of them is killed",
            static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    auto whole = one.trainer(), resumed = one.trainer();
    std::size_t steps = 0;
    fit_first(whole, one, whole_states.path, [] {});
    fit_first(resumed, one, states.path, [&] { ++steps; });
    CHECK(steps < few);
    CHECK(steps > 0);
    CHECK(test::same_state(resumed.state(), whole.state()));
  });
}

/// True if a part of a batch trains as it does within the batch: no batch norm, nothing drawn.
bool is_same_in_parts(const Case& one) {
  if (!one.program()->buffers().empty()) return false;
  torch::manual_seed(11);
  auto trainer = one.trainer();
  trainer.step(one.batches[0]);
  const at::Tensor next = torch::rand({4});
  torch::manual_seed(11);
  return test::same_bits(next, torch::rand({4}));
}

TEST_CASE("programs are sharded: 2 ranks have the bits of Accumulate<2>, and 1 rank of none") {
  each([](const Case& one) {
    const auto sharded = [&](const ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      return trace_of(one.trainer(Shard<FSDP>{.process_group = group}), one,
                      [&](const Batch& b) { return parts_of(b, group.size())[rank]; });
    };
    const Trace plain = trace_of(one.trainer(), one);
    test::ranks::on_groups(1, [&](const ProcessGroup& group) { CHECK(sharded(group) == plain); });
    if (!is_same_in_parts(one)) return;
    const auto without_draws = [](Trace trace) {  // of which ranks in threads have one source
      trace.weights.pop_back();
      return trace;
    };
    const Trace expected = without_draws(trace_of(one.trainer(Accumulate<2>{}), one));
    test::ranks::on_groups(
        2, [&](const ProcessGroup& group) { CHECK(without_draws(sharded(group)) == expected); });
  });
}

}  // namespace program
