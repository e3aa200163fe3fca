#pragma once
// Defines export_program, which writes a C++ model as a `.pt2` that Python opens by
// torch.export.load.
#include <functional>
#include <ikebana/core/core.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/precision/autocast.hpp>
#include <ikebana/program/export/archive.hpp>
#include <ikebana/program/export/dynamic.hpp>
#include <ikebana/program/export/export_run.hpp>
#include <ikebana/state/saved_state.hpp>

namespace ikebana {

template <class Model, class... Policies>
class Trainer;

/// Options of `export_program`.
struct ExportOptions {
  std::vector<DynamicDim> dynamic{};  ///< the dimensions that may have other sizes than the
                                      ///< example's
};

/// Describes a program that was written.
struct ExportedProgram {
  std::size_t nodes = 0;  ///< the number of operators
  /// Tensors that no operator of the forward made, such as a mask that the host filled, each with
  /// the operator and the unit that read it first. The program has the values that they have now.
  std::vector<std::string> constants{};
};

namespace detail::exported {

/// A model to export: its module, how it is called, and the example.
struct ExportRequest {
  torch::nn::Module& module;
  ProgramInputs inputs;
  Forward forward;
};

/// Records the forward and writes the program. Evaluation mode is set already.
ExportedProgram export_forward(const ExportRequest& request, const std::filesystem::path& path,
                               const ExportOptions& options, Files& files);

/// Exports a model as it is evaluated. `prepare` is applied to each argument of its forward.
template <class Model, class Example, class Prepare>
ExportedProgram export_model(Model& model, const Example& example,
                             const std::filesystem::path& path, const ExportOptions& options,
                             Files& files, const Prepare& prepare) {
  const auto arguments = arguments_of<Model>(example);
  torch::nn::Module& module = [&]() -> torch::nn::Module& {
    if constexpr (std::is_base_of_v<torch::nn::Module, Model>) return model;
    else return *module_of(model);
  }();
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  return export_forward({module, inputs_of(arguments), forward_of(model, arguments, prepare)}, path,
                        options, files);
}

/// Calls `f` as a precision computes a forward. Products of Precision<FP8> are written in BF16,
/// because LibTorch has no operator that scales and multiplies.
template <class Precision, class F>
auto in_precision(Precision& precision, const F& f) {
  using BF16 = Autocast<at::kBFloat16>;
  if constexpr (std::is_base_of_v<BF16, Precision>)
    return static_cast<BF16&>(precision).around_forward(f);
  else return precision.around_forward(f);
}

/// RAII: while it exists, the parameters that units of Precision<BF16Weights> compute with in BF16
/// are BF16.
class BF16Parameters {
 public:
  /// Does nothing for another precision.
  template <class Precision>
  BF16Parameters(Precision& precision, const torch::nn::Module& model) {
    if constexpr (requires { requires Precision::keeps_gathered; })
      for (const auto& item : model.named_parameters())
        if (item.value().scalar_type() == at::kFloat &&
            !precision.values.keep_fp32(item.key(), item.value()))
          convert(item.value());
  }
  ~BF16Parameters() {
    for (auto& [parameter, data] : former_) parameter.set_data(data);
  }
  BF16Parameters(const BF16Parameters&) = delete;
  BF16Parameters& operator=(const BF16Parameters&) = delete;

 private:
  void convert(const at::Tensor& parameter) {
    const at::NoGradGuard no_grad;
    former_.emplace_back(parameter, parameter.data());
    parameter.set_data(parameter.data().to(at::kBFloat16));
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> former_;
};

/// Exports the model of a trainer as it evaluates it. On several ranks, rank 0 writes.
template <class Trainer, class Example>
ExportedProgram export_trainer(Trainer& trainer, const Example& example,
                               const std::filesystem::path& path, const ExportOptions& options,
                               Files& files) {
  ExportedProgram done;
  auto write = [&](auto& model) {
    if (trainer.rank() != 0) return;
    auto& core = CoreOf<Trainer>::of(trainer);
    auto& m = core.mechanisms;
    c10::OptionalDeviceGuard current;
    if (!core.device.is_cpu()) current.reset_device(core.device);
    const Example placed = m.device.place(example, core.device);
    const auto laid_out = [&](const auto& argument) {
      return m.layout.place(argument, core.device);
    };
    const BF16Parameters low(m.precision, *core.units.units()[0].module);
    done = in_precision(
        m.precision, [&] { return export_model(model, placed, path, options, files, laid_out); });
  };
  trainer.with_full_weights(write, {.averaged = true});
  return done;
}

/// A module that knows the program it was made of, and writes that program with its present
/// weights.
template <class Module>
concept WritesItself = requires(Module& module, const std::filesystem::path& path, Files& files) {
  module.write_program(path, files);
};
template <class Model>
struct ModelOf {
  using type = Model;
};
template <class Model, class... Policies>
struct ModelOf<Trainer<Model, Policies...>> {
  using type = Model;
};
template <class Model>
using module_of_t = impl_of_t<typename ModelOf<std::remove_cvref_t<Model>>::type>;

}  // namespace detail::exported

/// Writes a model, or the model of a trainer, as a program of torch.export, a `.pt2` file that
/// Python opens by `torch.export.load(path).module()` and C++ by
/// `torch::nativert::ModelRunnerHandle`. The model is a module, a holder or a shared pointer, and
/// runs in evaluation mode. A trainer's model runs as the trainer evaluates it: with averaged
/// weights, its precision's casts as operators of the program, and whole weights under `Shard` and
/// `Offload`. On several ranks, all call it, and rank 0 writes. `example` is what `forward` takes
/// besides `run`. It is a tensor, a tuple of several, a struct or a map, whose names become keyword
/// arguments in Python, or a batch with an input and a target. The program takes tensors of the
/// example's sizes. The sizes in `options.dynamic` may differ, for which the model is recorded at
/// other sizes, too. The cost is four forwards, and two more for each dynamic size. The file is as
/// large as the weights and the example. Throws BadModel, with the operator and the unit, for a
/// model that reads a number on the host, writes to a weight, draws from a generator of its own or
/// computes in another way at other sizes, BadValue for a wrong `dynamic`, and FileFailed. The
/// former file then stays. Source: torch.export.save.
template <class Model, class Example>
ExportedProgram export_program(Model&& model, const Example& example,
                               const std::filesystem::path& path, const ExportOptions& options = {},
                               Files& files = system_files()) {
  using Bare = std::remove_cvref_t<Model>;
  detail::check_path(path, "export_program");
  if constexpr (detail::made_from<Bare, Trainer>)
    return detail::exported::export_trainer(model, example, path, options, files);
  else return detail::exported::export_model(model, example, path, options, files, std::identity());
}

/// Writes a model that was made of a program as that program, with its present weights. On several
/// ranks, all call it, and rank 0 writes. Throws FileFailed.
template <class Model>
  requires detail::exported::WritesItself<detail::exported::module_of_t<Model>>
void export_program(Model&& model, const std::filesystem::path& path,
                    Files& files = system_files()) {
  detail::check_path(path, "export_program");
  if constexpr (detail::made_from<std::remove_cvref_t<Model>, Trainer>)
    model.with_full_weights(
        [&](auto& trained) {
          if (model.rank() == 0) trained->write_program(path, files);
        },
        {.averaged = true});
  else if constexpr (requires { model.write_program(path, files); })
    model.write_program(path, files);
  else model->write_program(path, files);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/export.ipp>
#endif
