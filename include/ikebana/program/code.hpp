#pragma once
// The code of a program, which all of its modules share: its plans and the tensors that they read.
#include <ikebana/program/input_check.hpp>
#include <ikebana/program/options.hpp>
#include <ikebana/program/program_file.hpp>
#include <mutex>

namespace ikebana::detail::pt2 {

/// A graph, ready to run.
struct Code {
  Plan plan;
  InputCheck inputs;
  std::vector<std::string> output_names;  ///< of `plan.outputs`
  AttributeTensors attributes;            ///< by the index of `plan.attributes`
  std::vector<std::size_t> constants;     ///< those of `attributes` that no module holds
};

/// The graphs of a program: one for both modes, or one each.
struct ProgramCode {
  std::vector<Code> graphs;       ///< that of training first
  c10::Device device = at::kCPU;  ///< of the weights, and so of constants
  std::mutex mutex;               ///< of `device` and the constants, when the model is moved
};

/// The modules of one program that are units, the same in all of its graphs.
struct ProgramUnits {
  std::vector<std::string> paths;
  std::vector<NoUnit> others;  ///< that were wanted, and cannot be
};

/// Compiles the graphs of a file. Throws BadModel with all reasons if it cannot be run, BadValue if
/// no module matches the pattern of units.
std::vector<Code> compile_program(const ProgramFile& file, const ProgramOptions& options,
                                  ProgramUnits& units);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/code.ipp>
#endif
