#pragma once
// Finds that a state was saved with other policies, which is one sentence instead of an error for
// each of their numbers and moments.
#include <algorithm>
#include <ikebana/detail/text.hpp>
#include <ikebana/state/archive_scope.hpp>
#include <set>

namespace ikebana::detail {

/// The end of the error of a tensor that a recipe without an average cannot load.
inline constexpr const char* no_average = "is an average of weights, and this recipe has none";

/// The section of an error "`ikebana.<section>.<name>` ...", which is the name of a policy; empty
/// for those that are none. `policies`: those of the trainer, whose names may have dots.
std::string section_of(const std::string& problem, const std::vector<std::string>& policies);
std::string listed_policies(const std::set<std::string>& names);

/// Takes the errors away that are due to policies that only the state or only the trainer has, and
/// returns a sentence on these policies; empty where there is none.
template <class Dict>
std::string take_other_policies(std::vector<std::string>& problems,
                                const std::vector<std::string>& policies, const Dict& state) {
  std::set<std::string> saved, own;
  auto is_due_to_policy = [&](const std::string& problem) {
    const std::string section = section_of(problem, policies);
    if (section.empty()) return false;
    const std::string prefix = ArchiveScope::reserved_prefix + section + ".";
    const auto first = state.lower_bound(prefix);
    const bool is_saved = first != state.end() && first->first.starts_with(prefix);
    const bool is_own = std::find(policies.begin(), policies.end(), section) != policies.end();
    if (is_saved != is_own) (is_saved ? saved : own).insert(section);
    return is_saved != is_own;
  };
  std::erase_if(problems, is_due_to_policy);
  if (saved.empty() && own.empty()) return {};
  if (!saved.empty())
    std::erase_if(problems, [](const auto& problem) { return problem.ends_with(no_average); });
  std::string text = "the state was saved ";
  if (own.empty()) text += "with " + listed_policies(saved) + ", which this recipe does not have";
  else if (saved.empty()) text += "without " + listed_policies(own) + ", which this recipe has";
  else text += "with " + listed_policies(saved) + ", and this recipe has " + listed_policies(own);
  return text + (problems.empty() ? "" : "; ");
}
/// The text of the error of a state that does not fit: `problems`, with what they are due to.
template <class Dict>
std::string text_of_mismatch(std::vector<std::string> problems,
                             const std::vector<std::string>& policies, const Dict& state) {
  const std::string other = take_other_policies(problems, policies, state);
  return escaped("restore: " + other + joined(problems)) +
         ". Nothing was changed. Restore into the recipe and model that the state was saved from" +
         (other.empty() ? "." : "; load_weights takes the weights alone of any state.");
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/other_policies.ipp>
#endif
