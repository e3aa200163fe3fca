#pragma once
// Sets LibTorch's global settings on a device, for which place.py sets the same.
#include <cstdlib>

#include "row.hpp"

namespace parity {

/// Leaves out the warnings that an operator has no deterministic algorithm: a row that depends on
/// its results show the order of additions.
struct FewerWarnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("deterministic") == std::string::npos)
      c10::WarningHandler::process(warning);
  }
};

/// LibTorch's errors go on with a stack.
inline std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Returns true if the device still computes: after some errors CUDA does not, until the process
/// ends.
inline bool is_usable(c10::Device device) {
  try {
    return at::ones({}, device).add(1).item<double>() == 2;
  } catch (const std::exception&) {
    return false;
  }
}

/// Chooses kernels that give the same bits in every run, and TensorFloat-32 only in the recipe that
/// names it. Throws if the device does not exist. Changes nothing for the CPU.
inline void prepare(c10::Device device) {
  if (device.is_cpu()) return;
  if (device.is_cuda()) kept_by_kernels = 64 << 20;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  static FewerWarnings warnings;
  c10::WarningUtils::set_warning_handler(&warnings);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  try {
    at::ones({}, device).item<double>();
  } catch (const std::exception& e) {
    const std::string why = first_line(e);
    throw std::runtime_error("parity: there is no " + device.str() + ": " +
                             why.substr(0, why.find(". ")));
  }
}

}  // namespace parity
