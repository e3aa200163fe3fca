#pragma once
// Defines the code of a program, which all of its modules share: its plans and the tensors that
// they read.
#include <ikebana/program/input_check.hpp>
#include <ikebana/program/options.hpp>
#include <ikebana/program/program_file.hpp>
#include <mutex>

namespace ikebana::detail::pt2 {

/// A graph that is ready to run.
struct Code {
  Plan plan;
  InputCheck inputs;
  std::vector<std::string> output_names;  ///< the name of each of `plan.outputs`
  AttributeTensors attributes;            ///< the tensors, by their index in `plan.attributes`
  std::vector<std::size_t> constants;     ///< the `attributes` that no module holds
};

/// The graphs of a program: one for both modes, or one for each.
struct ProgramCode {
  std::vector<Code> graphs;       ///< the graph of training comes first
  c10::Device device = at::kCPU;  ///< the device of the weights, and so of the constants
  std::mutex mutex;               ///< guards `device` and the constants while the model is moved
};

/// The modules of one program that are units, which are the same in all of its graphs.
struct ProgramUnits {
  std::vector<std::string> paths;
  std::vector<NoUnit> others;  ///< the modules that were wanted as units, and cannot be
};

/// Compiles the graphs of a file. Throws BadModel with all reasons if it cannot be run, and
/// BadValue if no module matches the pattern of units.
std::vector<Code> compile_program(const ProgramFile& file, const ProgramOptions& options,
                                  ProgramUnits& units);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/code.ipp>
#endif
