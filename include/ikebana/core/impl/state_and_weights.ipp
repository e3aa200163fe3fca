#pragma once
#include <ikebana/core/state_and_weights.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE StateDict tensors_of(std::atomic<bool>& busy, StateOfCore core,
                                    const StateParts& parts, StateRows* rows) {
  const BusyGuard guard(busy);
  StateDict dict;
  Archive archive(dict, Archive::Mode::Save, rows);
  core(archive), parts.state(archive);
  return dict;
}

IKEBANA_INLINE void load_tensors_of(StateDict& tensors, StateRows* rows, StateOfCore core,
                                    const StateParts& parts, const std::optional<Ranks>& ranks) {
  Archive archive(tensors, Archive::Mode::Check, rows);
  auto check = [&] {
    core(archive), parts.state(archive);
    archive.finish_check();
    return std::string();
  };
  if (ranks) all_or_none<BadState>(ranks->data(), "the check of a state", check);
  else check();
  parts.state(archive), core(archive);  // a part of the user's may throw
}

}  // namespace ikebana::detail
