#pragma once
// The benchmarks share a median, and a line that states the conditions of the run.
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace bench {

inline double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

inline std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

inline const char* compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// `prefix` makes it a comment of csv. No `rounds`: nothing is timed.
inline void print_conditions(const char* prefix, int rounds) {
  double load[1] = {-1};
  if (getloadavg(load, 1) != 1) load[0] = -1;
  std::printf("%s%s (%s), %s, LibTorch %s, %d thread(s)", prefix, processor().c_str(),
              at::get_cpu_capability().c_str(), compiler(), TORCH_VERSION, at::get_num_threads());
  if (rounds > 0) std::printf(", %d rounds", rounds);
  std::printf(", load %.1f at the start\n", load[0]);
}

}  // namespace bench
