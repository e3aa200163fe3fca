#pragma once
// Which ranks' processes have ended, where this rank can see them.
#include <ikebana/posix/process_identity.hpp>
#include <ikebana/shard/store_calls.hpp>
#include <mutex>
#include <vector>

namespace ikebana::detail {

/// Each rank names its process in the store. Ranks on the same machine see when it has ended, also
/// before they are connected, and while they wait for nothing that it sends.
class ProcessWatch {
 public:
  ProcessWatch(std::int64_t rank, std::int64_t size)
      : rank_(rank), known_(static_cast<std::size_t>(size)) {}

  void announce(c10d::Store& store) const { store.set(key(rank_), bytes_of(here_.text())); }
  /// Reads the names of processes that are not known yet. Also of those that have ended: a rank may
  /// have been started again.
  void look(c10d::Store& store) {
    const std::lock_guard lock(mutex_);
    for (std::size_t r = 0; r < known_.size(); ++r) {
      if (known_[r] && !known_[r]->has_ended(here_)) continue;
      const std::string name = key(static_cast<std::int64_t>(r));
      if (!store.check({name})) continue;
      const auto text = store.get(name);
      known_[r] = ProcessIdentity::read({text.begin(), text.end()});
    }
  }
  /// Calls no store, as the next one.
  bool has_ended(std::int64_t rank) const {
    const std::lock_guard lock(mutex_);
    const auto& process = known_[static_cast<std::size_t>(rank)];
    return process && process->has_ended(here_);
  }
  /// "rank 1, rank 2 ended": those whose process is known and has ended, of which one may have
  /// ended since another did. Nothing where there is none.
  std::string ended() const {
    std::string names;
    for (std::int64_t r = 0; r < std::ssize(known_); ++r)
      if (has_ended(r)) names += (names.empty() ? "rank " : ", rank ") + std::to_string(r);
    return names.empty() ? names : names + " ended";
  }

 private:
  static std::string key(std::int64_t rank) { return "process/" + std::to_string(rank); }

  std::int64_t rank_;
  const ProcessIdentity here_ = ProcessIdentity::of_this();
  mutable std::mutex mutex_;
  std::vector<std::optional<ProcessIdentity>> known_;
};

}  // namespace ikebana::detail
