#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/run_profile.hpp>

namespace ikebana {

IKEBANA_INLINE std::string RunProfile::summary() const {
  // The first line has the model and the device; reports have all policies.
  std::string text = recipe.empty() ? "" : recipe.substr(0, recipe.find('\n')) + "\n";
  for (const detail::Answer& one : detail::answers(*this))
    text += "  " + detail::left(one.title, 16) + one.value +
            (one.text.empty() ? "" : "  " + one.text) + "\n";
  if (!bound_by.empty()) text += "  " + detail::left("bound by", 16) + bound_by + "\n";
  for (std::size_t i = 0; i < advice.size(); ++i) {
    const std::string gain = detail::gain_text(advice[i]);
    text += "  " + std::to_string(i + 1) + ". " + advice[i].finding + "\n     " + advice[i].change +
            (gain.empty() ? "" : " (" + gain + ")") + "\n";
  }
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const RunProfile& profile) {
  return out << profile.summary();
}

}  // namespace ikebana
