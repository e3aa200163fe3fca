#pragma once
// Makes small numbered states, and what may be on a disk before they are saved.
#include <ikebana/state/saved_state.hpp>
#include <set>

#include "state/campaign/campaign.hpp"
#include "state/campaign/disk.hpp"
#include "state/campaign/quiet.hpp"

namespace campaign {

using Fault = Disk::Fault;
inline constexpr int nothing = -1;
inline const std::filesystem::path state_path = "folder/state.safetensors";

/// A disk, and the numbers of the states that may load.
struct Scenario {
  std::string name;
  Disk disk;
  std::set<int> may;
};

inline ikebana::StateDict state_of(int number) {
  return {{"weight", at::arange(250, at::kFloat) + 1000 * number},
          {"flag", at::full({5}, number % 2, at::kByte)},
          {"step", at::scalar_tensor(number, at::kLong)}};
}
inline void save_number(Disk& disk, int number) {
  ikebana::save_tensors(state_path, state_of(number), {}, disk);
}
inline bool same_states(const ikebana::StateDict& a, const ikebana::StateDict& b) {
  auto same = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.scalar_type() == y.second.scalar_type() &&
           x.second.sizes() == y.second.sizes() &&
           (x.second.nbytes() == 0 ||
            std::memcmp(x.second.const_data_ptr(), y.second.const_data_ptr(), x.second.nbytes()) ==
                0);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}
/// Returns the number of a loaded state. Throws if it is a mix of states.
inline int number_of(const ikebana::StateDict& found) {
  const auto step = found.find("step");
  require(step != found.end() && step->second.scalar_type() == at::kLong,
          "the loaded state has no number");
  const int number = static_cast<int>(step->second.item<std::int64_t>());
  require(same_states(found, state_of(number)), "the loaded state is a mix");
  return number;
}
inline int number_on(Disk& disk, const std::filesystem::path& path = state_path) {
  ikebana::StateDict found;
  try {
    found = ikebana::detail::load_state(disk, path).tensors;
  } catch (const ikebana::Error&) {
    return nothing;
  }
  return number_of(found);
}

std::vector<Scenario> all_scenarios();

}  // namespace campaign
