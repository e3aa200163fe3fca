#pragma once
#include <fstream>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/control_groups.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void each_control_group(const std::string& root, const std::string& controller,
                                       const std::function<void(const std::string&, bool)>& f) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_second_version = controllers == ",,";
    if (!is_second_version && controllers.find("," + controller + ",") == line.npos) continue;
    const std::string folder =
        root + "/sys/fs/cgroup" + (is_second_version ? "" : "/" + controller);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    for (f(folder + path + "/", is_second_version); !path.empty();) {
      path.resize(path.find_last_of('/'));
      f(folder + path + "/", is_second_version);
    }
  }
}

}  // namespace ikebana::detail
