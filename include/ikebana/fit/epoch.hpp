#pragma once
// What an evaluation found, and what an epoch of `fit` came to.
#include <cstdint>
#include <ikebana/error.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// What `Trainer::evaluate` found.
struct Evaluation {
  double loss = 0;   ///< every term's scale * sum / count, over all batches
  double count = 0;  ///< items of the first term
  std::vector<std::pair<std::string, double>> metrics;

  /// A metric by name.
  double operator[](const std::string& name) const {
    for (const auto& [known, value] : metrics)
      if (known == name) return value;
    throw Error("evaluation: no metric `" + name + "`. Give it to evaluate or fit.");
  }
};

/// One pass over the data.
struct Epoch {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t steps = 0;
  double loss = 0;  ///< mean of the steps' losses
  double seconds = 0;
  std::optional<Evaluation> validation;
};
/// What `fit` did, epoch by epoch; those before a resume included.
struct History : std::vector<Epoch> {
  bool stopped = false;     ///< before its end: `stop` said so, or SIGTERM came
  bool terminated = false;  ///< SIGTERM came
};

}  // namespace ikebana
