#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/other_policies.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string section_of(const std::string& problem,
                                      const std::vector<std::string>& policies) {
  const std::string begin = std::string("`") + ArchiveScope::reserved_prefix;
  if (!problem.starts_with(begin)) return {};
  const std::string name = problem.substr(begin.size());
  for (const auto& policy : policies)
    if (name.starts_with(policy + ".")) return policy;
  std::string section = name.substr(0, name.find_first_of(".`"));
  for (const char* other : {"parts", "trained", "trainer", "slices"})
    if (section == other) return {};
  return section;
}

IKEBANA_INLINE std::string listed_policies(const std::set<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace ikebana::detail
