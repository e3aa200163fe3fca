#pragma once
// What a loader says of itself, by which ranks compare theirs before they train.
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/state/archive.hpp>
#include <string>

namespace ikebana::detail {

/// True for a loader that reads one of several ranks' parts of each batch, as DataLoader.
template <class Loader>
concept DividesAmongRanks = requires(Loader& loader, Archive& archive) {
  loader.options().num_replicas;
  loader.options().rank;
  loader.state(archive);
};

/// `rank num_replicas`, then a line for each number of what its position depends on and of where it
/// is. One empty line of a loader that knows no ranks.
template <class Loader>
std::string lines_of_loader(Loader& loader) {
  if constexpr (DividesAmongRanks<Loader>) {
    StateDict values;
    Archive archive(values, Archive::Mode::Save);
    loader.state(archive);
    std::string text = std::to_string(loader.options().rank) + " " +
                       std::to_string(loader.options().num_replicas) + "\n";
    for (const auto& [name, value] : values)
      text += name.substr(name.rfind('.') + 1) + " = " +
              (value.is_floating_point() ? c10::str(number(value))
                                         : std::to_string(value.template item<std::int64_t>())) +
              "\n";
    return text;
  } else {
    return "\n";
  }
}

}  // namespace ikebana::detail
