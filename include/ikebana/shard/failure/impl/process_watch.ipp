#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/process_watch.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void ProcessWatch::look(c10d::Store& store) {
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < known_.size(); ++r) {
    if (known_[r] && !known_[r]->has_ended(here_)) continue;
    const std::string name = key(static_cast<std::int64_t>(r));
    if (!store.check({name})) continue;
    const auto text = store.get(name);
    known_[r] = ProcessIdentity::read({text.begin(), text.end()});
  }
}

IKEBANA_INLINE bool ProcessWatch::has_ended(std::int64_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto& process = known_[static_cast<std::size_t>(rank)];
  return process && process->has_ended(here_);
}

IKEBANA_INLINE std::string ProcessWatch::ended() const {
  std::string names;
  for (std::int64_t r = 0; r < std::ssize(known_); ++r)
    if (has_ended(r)) names += (names.empty() ? "rank " : ", rank ") + std::to_string(r);
  return names.empty() ? names : names + " ended";
}

}  // namespace ikebana::detail
