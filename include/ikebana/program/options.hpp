#pragma once
// Defines the options of `load_program`.
#include <string>

namespace ikebana {

/// The options of `load_program`, all of which may be left out.
struct ProgramOptions {
  std::string model = {};  ///< the name of one of the file's models; empty: the only one, or
                           ///< `train` and `eval`
  /// A shell pattern of the paths of modules that become units, such as `blocks.*`. If it is empty,
  /// the units are all modules of a class that the model has several of, without modules inside of
  /// others. `none` means no unit.
  std::string units = {};
  std::string output = {};        ///< the output that forward returns; empty: the only tensor
  bool evaluation_graph = false;  ///< allows training a model that was exported in evaluation mode
  /// Whether the loss that the program returns is a mean in which all rows of a batch have the same
  /// weight. It is not needed if the program returns `sum` and `count`.
  bool mean_over_rows = false;
};

}  // namespace ikebana
