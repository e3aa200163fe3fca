#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/code.hpp>
#include <ikebana/program/graph_compiler.hpp>
#include <ikebana/program/listed.hpp>
#include <ikebana/program/trees.hpp>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE c10::DeviceType exported_device(const ProgramFile& file) {
  for (const auto& [name, model] : file.models[0].model.graph.tensors) return model.device.type();
  return at::kCPU;
}

[[noreturn]] IKEBANA_INLINE void refuse_program(const std::vector<std::string>& reasons) {
  std::string text = "load_program: this program cannot be run:";
  constexpr std::size_t shown = 20;
  for (std::size_t i = 0; i < std::min(reasons.size(), shown); ++i)
    text += "\n  " + reasons[i] + ".";
  if (reasons.size() > shown)
    text += "\n  And " + std::to_string(reasons.size() - shown) + " more.";
  throw BadModel(text + "\nExport a model without these, see docs/programs.md.");
}

/// Returns the units of all graphs. A module is a unit if each graph can call it as one.
IKEBANA_INLINE ProgramUnits units_of(const std::vector<CompiledGraph>& graphs,
                                     const std::string& pattern) {
  ProgramUnits units;
  if (pattern == "none") return units;
  units.paths = candidates(graphs[0], pattern);
  if (units.paths.empty() && !pattern.empty())
    throw BadValue("load_program: no module of the program matches the units `" + escaped(pattern) +
                   "`. Correct ProgramOptions::units, as `blocks.*`.");
  for (const CompiledGraph& graph : graphs) {
    std::vector<NoUnit> others;
    units.paths = separable(graph, units.paths, others);
    units.others.insert(units.others.end(), others.begin(), others.end());
  }
  return units;
}

/// Throws BadValue for an output that the program does not have.
IKEBANA_INLINE void check_output(const std::string& chosen,
                                 const std::vector<std::string>& outputs) {
  if (chosen.empty() || std::find(outputs.begin(), outputs.end(), chosen) != outputs.end()) return;
  throw BadValue("load_program: no output is called `" + escaped(chosen) + "`; the program has " +
                 listed(outputs) + ". Correct ProgramOptions::output.");
}

IKEBANA_INLINE std::vector<Code> compile_program(const ProgramFile& file,
                                                 const ProgramOptions& options,
                                                 ProgramUnits& units) {
  std::vector<std::string> refusals;
  std::vector<CompiledGraph> graphs;
  const Modes modes = file.models.size() == 1 ? Modes::Switched : Modes::AsExported;
  for (const NamedModel& model : file.models)
    graphs.push_back(compiled(model.model, exported_device(file), modes, refusals));
  if (!refusals.empty()) refuse_program(refusals);
  units = units_of(graphs, options.units);
  std::vector<Code> codes;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const ProgramModel& model = file.models[i].model;
    Code code;
    code.inputs = InputCheck(model);
    code.output_names = output_names(model, graphs[i].outputs.size());
    check_output(options.output, code.output_names);
    code.plan = plan_of(std::move(graphs[i]), units.paths);
    codes.push_back(std::move(code));
  }
  return codes;
}

}  // namespace ikebana::detail::pt2
