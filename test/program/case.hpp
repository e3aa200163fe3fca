#pragma once
// Defines models of Python that reference.py has exported and trained, with their batches.
#include <ikebana.hpp>
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/program.hpp>

#include "test.hpp"

namespace program {

using namespace ikebana;
using Batch = std::map<std::string, at::Tensor>;

/// Returns the folder to which reference.py has written.
inline std::filesystem::path folder() {
  const char* given = std::getenv("IKEBANA_PROGRAMS");
  return given ? given : IKEBANA_PROGRAMS;
}

/// Returns the tensors whose names begin with `prefix`, without it.
inline StateDict part(const StateDict& all, const std::string& prefix) {
  StateDict found;
  for (const auto& [name, value] : all)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = value;
  return found;
}

inline std::vector<Batch> batches_of(const StateDict& all, const std::string& prefix) {
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
  bool count_is_tensor = false;  ///< a step that is recorded goes on with a number

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
    const at::Tensor count = (target != -100).sum();
    return {at::cross_entropy_loss(last ? found.flatten(0, -2) : found,
                                   last ? target.flatten() : target, {}, at::Reduction::Sum),
            count_is_tensor ? Count(count) : Count(count.item<std::int64_t>())};
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
  /// Returns the first steps of the training.
  std::vector<Batch> first(std::size_t steps) const {
    return {batches.begin(), batches.begin() + static_cast<std::ptrdiff_t>(steps)};
  }
};

/// Returns all cases. Cases that draw or have batch norm are not the same on parts of a batch.
inline const std::vector<Case>& cases() {
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

}  // namespace program
