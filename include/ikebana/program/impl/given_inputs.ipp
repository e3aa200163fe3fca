#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/given_inputs.hpp>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE std::string program_name(const std::string& path) {
  const bool is_position = path.starts_with('<') || (path.starts_with('[') && path[1] != '"');
  if (is_position) return {};
  std::string name;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::size_t end = path.find("\"]", i);
    if (path.compare(i, 2, "[\"") == 0 && end != std::string::npos) {
      name += (name.empty() ? "" : ".") + path.substr(i + 2, end - i - 2);
      i = end + 1;
    } else {
      name += path[i] == '<' ? '[' : path[i] == '>' ? ']' : path[i];
    }
  }
  return name;
}

}  // namespace ikebana::detail::pt2
