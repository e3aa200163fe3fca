#pragma once
// Defines the modules of a program: `Program`, which is the model, `ProgramUnit`, one of its units,
// and the modules between them, which hold parameters.
#include <ikebana/batch.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/program/code.hpp>
#include <ikebana/program/given_inputs.hpp>
#include <ikebana/run/runner.hpp>
#include <variant>

namespace ikebana {

/// A module of a program, with the names that it has in Python. It holds parameters and buffers.
class ProgramModule : public torch::nn::Module {
 public:
  /// Returns the parameters that are directly in this module.
  const torch::OrderedDict<std::string, at::Tensor>& own_parameters() const { return parameters_; }
};

/// The values that cross the border of a unit, in the order of the graph.
struct ProgramValues {
  std::vector<at::Tensor> tensors;                                ///< the values that are tensors
  std::vector<std::variant<std::int64_t, double, bool>> numbers;  ///< the values that are numbers,
                                                                  ///< such as sizes
  std::size_t graph = 0, call = 0;  ///< the graph, and the one of the unit's calls in it
};

/// A unit of a program: the part that is checkpointed, sharded or offloaded as one. It computes the
/// nodes that belong to one module in Python.
class ProgramUnitImpl : public ProgramModule {
 public:
  /// Computes the unit's nodes. `Program::forward` calls it.
  ProgramValues forward(const ProgramValues& inputs);

 private:
  friend class ProgramImpl;
  std::shared_ptr<detail::pt2::ProgramCode> code_;
};
TORCH_MODULE(ProgramUnit);

/// An output of a program.
struct ProgramOutput {
  std::string name;   ///< `logits`, `pair[0]`, or `output` for a single one
  at::Tensor tensor;  ///< a number is a tensor without dimensions on the CPU
};

/// All outputs of a program, in its order.
class ProgramOutputs : public std::vector<ProgramOutput> {
 public:
  /// Returns the output with a name. Throws BadValue, which lists the names, if no output has it.
  const at::Tensor& at(const std::string& name) const;
  /// Returns true if an output has this name.
  bool has(const std::string& name) const;
};

namespace detail {

/// A value that a program may be given: tensors, or a number.
template <class T>
concept ProgramInput = pt2::holds_program_inputs<T> && !std::is_same_v<T, ProgramValues>;

/// True for a run whose recipe has a policy that works unit by unit.
template <class Run>
inline constexpr bool works_by_units = false;
template <class Run>
  requires requires { Run::per_unit; }
inline constexpr bool works_by_units<Run> = Run::per_unit;

}  // namespace detail

/// A model that was written in Python, exported by torch.export, and is trained here: a LibTorch
/// module with Python's names of parameters and buffers. `load_program` makes it.
///
/// Its graph runs through LibTorch's dispatcher. Its units are modules of Python, see
/// docs/programs.md.
class ProgramImpl : public ProgramModule {
 public:
  /// The units of the program, which are modules of Python.
  using units = Units<ProgramUnit>;

  /// Makes the modules of a file. `load_program` calls it.
  ProgramImpl(detail::pt2::ProgramFile file, const ProgramOptions& options);

  /// Computes the output that `ProgramOptions::output` names, or the only one. Inputs are given by
  /// position, or by name in one struct or map. Throws BadBatch for inputs that do not fit what the
  /// model was exported for, and BadModel in a mode that the file does not have.
  template <class Run, detail::ProgramInput... In>
    requires requires(Run& run) { run.evaluating; }
  at::Tensor forward(Run& run, const In&... in) {
    return chosen(outputs(run, in...));
  }
  /// Computes the same output without a trainer.
  template <detail::ProgramInput... In>
  at::Tensor forward(const In&... in) {
    return forward(plain, in...);
  }
  /// Computes all outputs.
  template <class Run, detail::ProgramInput... In>
    requires requires(Run& run) { run.evaluating; }
  ProgramOutputs outputs(Run& run, const In&... in) {
    std::vector<detail::pt2::GivenInput> given;
    (detail::pt2::add_program_inputs(in, sizeof...(In) == 1, given), ...);
    if (detail::works_by_units<Run> && unit_names_.empty()) note_whole();
    return compute(std::move(given), run.evaluating,
                   [&](ProgramUnit* unit, ProgramValues values) -> ProgramValues {
                     return unit ? run(*unit, std::move(values)) : run(*this, std::move(values));
                   });
  }
  /// Computes a program that has no units, and so is one itself. `outputs` calls it.
  ProgramValues forward(const ProgramValues& inputs);
  /// Returns the loss that the program computes. It is the outputs `sum` and `count`, or, with
  /// `ProgramOptions::mean_over_rows`, a mean over rows: the output `loss`, or the only number.
  template <class Run, class Batch>
    requires detail::ProgramInput<Batch> && requires(Run& run) { run.evaluating; }
  Loss loss(Run& run, const Batch& batch) {
    std::int64_t rows = 0;
    detail::for_each_tensor(batch, [&](const at::Tensor& t) {
      if (rows == 0 && t.defined() && t.dim() > 0) rows = t.size(0);
    });
    return loss_of(outputs(run, batch), rows);
  }

  /// Returns the paths of the modules that are units.
  const std::vector<std::string>& unit_names() const { return unit_names_; }
  /// Returns the modules that were wanted as units but cannot be, each with the reason.
  const std::vector<detail::pt2::NoUnit>& not_units() const { return not_units_; }
  /// Writes the file from which it was loaded, with its present weights. `export_program` calls it.
  /// Throws BadModel if a trainer stores the weights outside of the model, and FileFailed.
  void write_program(const std::filesystem::path& path, Files& files) const;
  void pretty_print(std::ostream& stream) const override;

 private:
  /// Runs a unit, or the whole program if `unit` is null.
  using RunOne = c10::function_ref<ProgramValues(ProgramUnit* unit, ProgramValues values)>;

  void make_modules(detail::pt2::ProgramFile& file);
  void add_attributes(detail::pt2::ProgramFile& file, detail::pt2::Code& code);
  ProgramModule& module_at(const std::string& path);
  std::size_t add_tensor(const std::string& name, const detail::pt2::StoredTensor& stored,
                         bool is_parameter);
  const torch::nn::Module& module_around(const std::string& path) const;
  void find_owners(detail::pt2::Plan& plan);
  void place_constants(c10::Device device);
  c10::Device device_of(const detail::pt2::Values& inputs) const;
  std::size_t graph_of_mode(bool evaluating) const;
  ProgramOutputs compute(std::vector<detail::pt2::GivenInput> given, bool evaluating, RunOne run);
  void note_whole();
  at::Tensor chosen(const ProgramOutputs& outputs) const;
  Loss loss_of(const ProgramOutputs& outputs, std::int64_t rows) const;

  std::shared_ptr<detail::pt2::ProgramCode> code_;
  ProgramOptions options_;
  std::vector<std::string> unit_names_;
  std::vector<detail::pt2::NoUnit> not_units_;
  bool noted_whole_ = false;
  std::vector<std::vector<ProgramUnit>> calls_;  // the units of each graph, by the index of the
                                                 // call
  std::vector<const torch::nn::Module*> parts_;  // all modules below this one
  detail::pt2::ProgramFile file_;                // the file that `write_program` writes again
};
TORCH_MODULE(Program);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/module.ipp>
#endif
