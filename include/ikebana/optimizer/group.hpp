#pragma once
// Parameter groups: rules by name or shape that give some parameters other values.
#include <ikebana/error.hpp>
#include <ikebana/parameters/rule.hpp>
#include <ikebana/state/archive.hpp>
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

namespace detail {

/// For each parameter that is mine, the first group whose rule matches; their number where none
/// does. Throws BadValue for a group that matches nothing.
template <class IsMine>
std::vector<std::size_t> chosen_groups(const std::vector<Group>& groups,
                                       const std::vector<std::string>& names,
                                       const std::vector<at::Tensor>& parameters,
                                       const IsMine& is_mine) {
  std::vector<bool> used(groups.size());
  std::vector<std::size_t> chosen(parameters.size(), groups.size());
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (std::size_t g = 0; g < groups.size() && chosen[i] == groups.size(); ++g)
      if (is_mine(i) && groups[g].match(names[i], parameters[i])) chosen[i] = g, used[g] = true;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!used[g])
      throw BadValue("optimizer: group " + std::to_string(g) +
                     " matches no parameter. Mend its rule, or leave it out.");
  return chosen;
}

/// The numbers of groups that may change between steps.
inline void save_groups(Archive& archive, std::vector<Group>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    archive.within("groups." + std::to_string(g), [&] {
      if (groups[g].lr) archive.number("lr", *groups[g].lr);
      if (groups[g].weight_decay) archive.number("weight_decay", *groups[g].weight_decay);
    });
}

}  // namespace detail
}  // namespace ikebana
