#pragma once
// How the ranks of a world find each other at a server of c10d, within a time limit.
#include <algorithm>
#include <chrono>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/failure/process_watch.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <map>
#include <mutex>
#include <thread>

namespace ikebana::detail {

/// A time limit, and what is left of it.
class Deadline {
 public:
  using Milliseconds = std::chrono::milliseconds;
  explicit Deadline(Milliseconds limit) : limit_(limit), end_(Clock::now() + limit) {}

  Milliseconds left() const;
  bool is_over() const { return left().count() == 0; }
  std::string text() const;
  /// Asks again and again, after pauses that grow, until `f` is true or the time is over.
  template <class F>
  bool wait(F&& f) const {
    for (Milliseconds pause(1); !f(); pause = std::min(2 * pause, Milliseconds(100))) {
      if (is_over()) return false;
      std::this_thread::sleep_for(std::min(pause, left()));
    }
    return true;
  }
  /// Store::wait would write warnings to stderr when it ends.
  bool wait(c10d::Store& store, const std::string& key) const;

 private:
  using Clock = std::chrono::steady_clock;
  Milliseconds limit_;
  Clock::time_point end_;
};

std::string address_of(const World& world);
std::string rank_text(const World& world);

/// A connection of c10d, which waits for ever for the answer of a server that is none of c10d's.
StorePtr connected(const World& world, const Deadline& deadline);

/// The servers of this process, until it ends: another rank may be about to connect to one when
/// this one has just freed its store.
struct __attribute__((visibility("default"))) OwnServers {
  std::mutex mutex;
  std::map<std::int64_t, StorePtr> by_port;

  static OwnServers& get() {
    static OwnServers servers;
    return servers;
  }
};

/// A connection to the world's server, which rank 0 is itself, except under torchrun.
StorePtr connect(const World& world, const Deadline& deadline);

/// How the ranks of one start find each other at a server that may also have keys of ranks that
/// died (torchrun starts ranks anew with the same server) or of another training. Rank 0 names the
/// start by a random token. Each other rank asks for it with a random number, which rank 0
/// answers, and takes its seat; when all seats are taken, rank 0 opens the world to all at once.
/// Restarts that torchrun counts would not do: each host counts its own. With its seat a rank names
/// its process, so that those on its machine see when that ends.
class Meeting {
 public:
  Meeting(c10d::Store& server, const World& world, const Deadline& deadline)
      : server_(server), world_(world), deadline_(deadline), watch_(world.rank, world.size) {}

  /// The token, the same at all ranks and at no other start.
  std::string token();

 private:
  static std::string random_name();
  static std::string seat_key(const std::string& token, std::int64_t rank);
  std::string get(const std::string& key) const { return server_.get_to_str(key); }

  std::string ask(const std::string& own) const;

  /// Those of the store that `make_store` returns.
  StorePtr keys_of(const std::string& token) const;
  /// "rank 1 ended" of those that had come, as far as this machine knows; empty for none.
  std::string ended(c10d::Store& keys);

  void wait_for_all(const std::string& token);

  /// A rank that fails to come is an error of all.
  void seat_all(const std::string& token);

  /// Answers a rank, also when it asks anew, until it has taken its seat.
  void seat(std::int64_t rank, const std::string& token);

  c10d::Store& server_;
  const World& world_;
  const Deadline& deadline_;
  ProcessWatch watch_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/meeting.ipp>
#endif
