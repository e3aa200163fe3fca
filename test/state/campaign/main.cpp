// state_campaign NAME [COUNT]: see campaign.hpp.
#include <cstdio>
#include <map>

#include "state/campaign/campaign.hpp"

namespace campaign {
using Campaign = void (*)(std::int64_t count);
const std::map<std::string, Campaign> all = {
    {"async", async}, {"calls", calls},     {"crash", crash}, {"edits", edits},
    {"flips", flips}, {"folders", folders}, {"kill", kill},   {"truncations", truncations},
};
}  // namespace campaign

int main(int argc, char** argv) try {
  auto found = campaign::all.find(argc > 1 ? argv[1] : "");
  if (found == campaign::all.end()) {
    std::fprintf(stderr, "usage: state_campaign NAME [COUNT]; there are:");
    for (const auto& [name, run] : campaign::all) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  found->second(argc > 2 ? std::atoll(argv[2]) : 0);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "state_campaign: %s\n", error.what());
  return 1;
}
