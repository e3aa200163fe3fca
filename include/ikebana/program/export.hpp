#pragma once
// export_program: a C++ model as a `.pt2`, which Python opens by torch.export.load.
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/program/export/archive.hpp>
#include <ikebana/program/export/dynamic.hpp>
#include <ikebana/program/export/export_run.hpp>

namespace ikebana {

/// Options of `export_program`.
struct ExportOptions {
  std::vector<DynamicDim> dynamic{};  ///< dimensions that may have other sizes than the example's
};

/// What a program that was written consists of.
struct ExportedProgram {
  std::size_t nodes = 0;  ///< operators
  /// Tensors that no operator of the forward made, such as a mask that the host filled, each with
  /// the operator and the unit that read it first: the program has their values of now.
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

/// Exports a model that is evaluated as it is.
template <class Model, class Example>
ExportedProgram export_model(Model& model, const Example& example,
                             const std::filesystem::path& path, const ExportOptions& options,
                             Files& files) {
  const auto arguments = arguments_of<Model>(example);
  torch::nn::Module& module = [&]() -> torch::nn::Module& {
    if constexpr (std::is_base_of_v<torch::nn::Module, Model>) return model;
    else return *module_of(model);
  }();
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  return export_forward({module, inputs_of(arguments), forward_of(model, arguments)}, path, options,
                        files);
}

}  // namespace detail::exported

/// Writes a model as a program of torch.export. TODO
template <class Model, class Example>
ExportedProgram export_program(Model& model, const Example& example,
                               const std::filesystem::path& path, const ExportOptions& options = {},
                               Files& files = system_files()) {
  return detail::exported::export_model(model, example, path, options, files);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/export.ipp>
#endif
