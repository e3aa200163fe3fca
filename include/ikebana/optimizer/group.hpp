#pragma once
// Parameter groups: rules by name or shape that give some parameters other values.
#include <ikebana/parameters/rule.hpp>
#include <optional>

namespace ikebana {

/// Parameters with values of their own. The first group whose rule matches wins; a rule that
/// matches nothing is an error when the trainer is made. A value left out is the optimizer's.
struct Group {
  ParameterRule match;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// The usual group: no weight decay on biases and norms.
inline Group no_decay(ParameterRule match = one_dimensional) {
  return {.match = std::move(match), .weight_decay = 0.0};
}

}  // namespace ikebana
