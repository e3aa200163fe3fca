#pragma once
// Defines what a profile advises.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ikebana {

/// One thing to change, with the measurements that show it.
struct Advice {
  std::string name = {};      ///< the rule that found it: `data`, `threads`, `denormals`
  std::string finding = {};   ///< the finding: `waits for data 41 % of the step`
  std::string evidence = {};  ///< the measurements
  std::string change = {};    ///< the setting or policy to change, as code where it is code
  /// The part of the step's time that the change is expected to save, from 0 to 1; no value: it
  /// cannot be told from what was measured.
  std::optional<double> expected_gain = {};
  /// The part of the step's time that the change has saved, if it was tried.
  std::optional<double> measured_gain = {};
  std::optional<std::int64_t> value = {};  ///< the number that the change sets: workers, threads
};

}  // namespace ikebana
