#pragma once
#include <ikebana/bridge/cast_weights.hpp>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/exporting.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/program/export.hpp>
#include <ikebana/program/export/graph.hpp>
#include <ikebana/program/export/module_paths.hpp>
#include <ikebana/program/export/replay.hpp>
#include <optional>
#include <set>

namespace ikebana::detail::exported {

/// Records a model at several sizes.
class Exporter {
 public:
  Exporter(const ExportRequest& request, const ExportOptions& options)
      : request_(request),
        weights_(request.module),
        example_(request.inputs.named.tensors()),
        symbols_(symbols_of(options.dynamic, request.inputs.named)),
        sizes_(sizes_to_record(symbols_)) {
    if (device() != at::kCPU) device_generator_.emplace(weights_.all()[0].tensor.device());
  }
  ~Exporter() { rewind(); }
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  ExportedProgram write(const std::filesystem::path& path, Files& files) {
    {
      const ExportingScope exporting;
      forwarded(example_, "");  // makes what a model keeps from its first call on
    }
    for (const Values& sizes : sizes_) record(resized(example_, symbols_, sizes, 0), sizes);
    record(other_rows(), sizes_[0]);
    Graph graph = graph_of(std::move(forwards_), by_symbol());
    for (std::size_t r = 0; r < runs_.size(); ++r) check(graph, runs_[r]);
    name_modules(graph, weights_);
    write_program({graph, weights_, symbols_, request_.inputs, outputs_}, path, files);
    ExportedProgram done{graph.nodes.size(), {}};
    for (const RecordedConstant& constant : graph.constants)
      done.constants.push_back(constant.used_by);
    return done;
  }

 private:
  /// A recorded forward: the inputs that it was given, and the result that the model returned.
  struct RecordedRun {
    std::vector<at::Tensor> inputs, outputs;
    Values sizes;
  };

  /// Returns the example with its rows in another order, so that values which the host computed
  /// differ.
  std::vector<at::Tensor> other_rows() const {
    if (!symbols_.empty()) return resized(example_, symbols_, sizes_[0], 1);
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& t : example_)
      inputs.push_back(t.dim() == 0 ? t : at::roll(t, 1, 0).contiguous(t.suggest_memory_format()));
    return inputs;
  }
  void record(std::vector<at::Tensor> inputs, const Values& sizes) {
    const bridge::OwnCastWeights casts(device());
    RecordedForward forward;
    forward.sizes = text_of(symbols_, sizes);
    Nested result;
    {
      const ExportingScope exporting;
      Recorder recorder(weights_, inputs);
      result = forwarded(inputs, forward.sizes);
      forward.recording = recorder.finish(result.tensors(), forward.outputs);
    }
    throw_problems(forward.recording.problems);
    std::vector<at::Tensor> outputs = result.tensors();
    if (forwards_.empty()) outputs_ = std::move(result);
    forwards_.push_back(std::move(forward));
    runs_.push_back({std::move(inputs), std::move(outputs), sizes});
  }
  c10::DeviceType device() const {
    return weights_.all().empty() ? at::kCPU : weights_.all()[0].tensor.device().type();
  }
  /// Sets the generators back, so that every forward and every replay draws the same random
  /// numbers.
  void rewind() const {
    host_generator_.restore();
    if (device_generator_) device_generator_->restore();
  }
  Nested forwarded(const std::vector<at::Tensor>& inputs, const std::string& sizes) const {
    rewind();
    try {
      return request_.forward(inputs);
    } catch (const std::exception& error) {
      std::string what = ": " + ikebana::detail::text_of(error);
      if (what.ends_with(".")) what.pop_back();
      if (sizes.empty())
        throw BadModel("export_program: forward throws for the example" + what +
                       ". Give an example that it takes.");
      throw BadModel("export_program: forward throws with " + sizes + what +
                     ". Give the sizes that it takes as `min`, `max` and `multiple_of` of "
                     "`dynamic`.");
    }
  }
  static void throw_problems(const std::vector<std::string>& problems) {
    if (problems.empty()) return;
    std::set<std::string> seen;
    std::string text;
    for (const std::string& problem : problems)
      if (seen.insert(problem).second) text += (text.empty() ? "" : "; ") + problem;
    throw BadModel("export_program: " + text + ".");
  }
  std::vector<Values> by_symbol() const {
    std::vector<Values> all(symbols_.size());
    for (const RecordedRun& run : runs_)
      for (std::size_t s = 0; s < symbols_.size(); ++s) all[s].push_back(run.sizes[s]);
    return all;
  }
  void check(const Graph& graph, const RecordedRun& run) const {
    const std::string sizes = text_of(symbols_, run.sizes);
    std::vector<at::Tensor> outputs;
    rewind();
    try {
      outputs = replay(graph, weights_, run.inputs, run.sizes);
    } catch (const c10::Error& error) {
      throw BadModel("export_program: the recorded operators cannot be run again" +
                     (sizes.empty() ? "" : " with " + sizes) + ": " + message_of(error) +
                     ". Compute by operators of LibTorch alone.");
    }
    check_replay(outputs, run.outputs, sizes);
  }

  const ExportRequest& request_;
  ModelWeights weights_;
  std::vector<at::Tensor> example_;
  std::vector<Symbol> symbols_;
  std::vector<Values> sizes_;
  std::vector<RecordedForward> forwards_;
  std::vector<RecordedRun> runs_;
  Nested outputs_;
  bridge::GeneratorState host_generator_{at::kCPU};
  std::optional<bridge::GeneratorState> device_generator_;
};

IKEBANA_INLINE ExportedProgram export_forward(const ExportRequest& request,
                                              const std::filesystem::path& path,
                                              const ExportOptions& options, Files& files) {
  return Exporter(request, options).write(path, files);
}

}  // namespace ikebana::detail::exported
