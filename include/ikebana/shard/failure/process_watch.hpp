#pragma once
// The watch over the processes of ranks on this machine: it sees which of them have ended.
#include <ikebana/posix/process_identity.hpp>
#include <ikebana/shard/failure/store_calls.hpp>
#include <mutex>
#include <vector>

namespace ikebana::detail {

/// Each rank names its process in the store. Ranks on the same machine see when that has ended,
/// also before they are connected, and while they await no message from it.
class ProcessWatch {
 public:
  ProcessWatch(std::int64_t rank, std::int64_t size)
      : rank_(rank), known_(static_cast<std::size_t>(size)) {}

  void announce(c10d::Store& store) const { store.set(key(rank_), bytes_of(here_.text())); }
  /// Reads the names of processes that are not known yet, or that have ended: a rank may have been
  /// started again.
  void look(c10d::Store& store);
  /// Returns true if the rank's process is known and has ended. Does not call the store.
  bool has_ended(std::int64_t rank) const;
  /// Returns a text such as "rank 1, rank 2 ended", with the ranks whose processes are known and
  /// have ended; empty if no process has. One of them may have ended because another one did. Does
  /// not call the store.
  std::string ended() const;

 private:
  static std::string key(std::int64_t rank) { return "process/" + std::to_string(rank); }

  std::int64_t rank_;
  const ProcessIdentity here_ = ProcessIdentity::of_this();
  mutable std::mutex mutex_;
  std::vector<std::optional<ProcessIdentity>> known_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/process_watch.ipp>
#endif
