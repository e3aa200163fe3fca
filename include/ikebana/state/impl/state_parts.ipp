#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana {

IKEBANA_INLINE void StateParts::append(const StateParts& others) {
  for (const auto& [name, visit] : others.parts_) add(name, visit);
  ignores_others_ = ignores_others_ || others.ignores_others_;
}

IKEBANA_INLINE void StateParts::state(Archive& archive) const {
  for (const auto& [name, visit] : parts_)
    archive.begin_section(detail::EntryNames::parts_prefix + name), visit(archive);
  if (ignores_others_) archive.ignore_parts();
}

IKEBANA_INLINE StateParts detail::IgnoredParts::make() {
  StateParts none;
  none.ignores_others_ = true;
  return none;
}

IKEBANA_INLINE StateParts StateParts::ignored() { return ignore_parts; }

IKEBANA_INLINE void StateParts::add(std::string name, Visit visit) {
  for (const auto& [known, other] : parts_)
    if (known == name)
      throw BadValue("state: two parts have the name `" + name +
                     "`. Give one of them another state_name.");
  parts_.emplace_back(std::move(name), std::move(visit));
}

}  // namespace ikebana
