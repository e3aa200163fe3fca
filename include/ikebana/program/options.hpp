#pragma once
// The options of `load_program`.
#include <string>

namespace ikebana {

/// The options of `load_program`, all of which may be left out.
struct ProgramOptions {
  std::string model = {};  ///< one of the file's; empty: the only one, or `train` and `eval`
  /// A shell pattern of the paths of modules that become units, such as `blocks.*`. Empty: all
  /// modules of a class of which the model has several, the outermost ones. `none`: no unit.
  std::string units = {};
  std::string output = {};        ///< what forward returns; empty: the only tensor
  bool evaluation_graph = false;  ///< allows to train what was exported in evaluation mode
  /// Whether the loss that the program returns is a mean in which each row of a batch counts as
  /// much. Not needed if it returns `sum` and `count`.
  bool mean_over_rows = false;
};

}  // namespace ikebana
