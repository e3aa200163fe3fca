#pragma once
// Defines the meeting of the ranks of a world at a server of c10d, within a time limit.
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
  /// Calls `f` repeatedly, after pauses that grow, until it is true or the time is over.
  template <class F>
  bool wait(F&& f) const {
    for (Milliseconds pause(1); !f(); pause = std::min(2 * pause, Milliseconds(100))) {
      if (is_over()) return false;
      std::this_thread::sleep_for(std::min(pause, left()));
    }
    return true;
  }
  /// Waits until the store has the key. Store::wait would write warnings to stderr at the time
  /// limit.
  bool wait(c10d::Store& store, const std::string& key) const;

 private:
  using Clock = std::chrono::steady_clock;
  Milliseconds limit_;
  Clock::time_point end_;
};

std::string address_of(const World& world);
std::string rank_text(const World& world);

/// Makes a connection of c10d, within the deadline: c10d would wait without end for the answer of a
/// server that is not c10d's.
StorePtr connected(const World& world, const Deadline& deadline);

/// The servers of this process, which exist until it ends: another rank may be about to connect to
/// one when this rank has just freed its store.
struct __attribute__((visibility("default"))) OwnServers {
  std::mutex mutex;
  std::map<std::int64_t, StorePtr> by_port;

  static OwnServers& get() {
    static OwnServers servers;
    return servers;
  }
};

/// Connects to the world's server, which is in rank 0 itself, except under torchrun.
StorePtr connect(const World& world, const Deadline& deadline);

/// The meeting of the ranks of one start at a server that may also have keys of ranks that died
/// (torchrun restarts ranks with the same server) or of another training. Rank 0 names the start by
/// a random token. Each other rank asks for it with a random number, which rank 0 answers, and
/// takes its seat; when all seats are taken, rank 0 opens the world to all at once. torchrun's
/// count of restarts cannot serve as the token, since each host counts its own. With its seat a
/// rank names its process, so that ranks on its machine see when that ends.
class Meeting {
 public:
  Meeting(c10d::Store& server, const World& world, const Deadline& deadline)
      : server_(server), world_(world), deadline_(deadline), watch_(world.rank, world.size) {}

  /// Returns the token, which is the same at all ranks and at no other start.
  std::string token();

 private:
  static std::string random_name();
  static std::string seat_key(const std::string& token, std::int64_t rank);
  std::string get(const std::string& key) const { return server_.get_to_str(key); }

  std::string ask(const std::string& own) const;

  /// Returns the keys of the store that `make_store` returns.
  StorePtr keys_of(const std::string& token) const;
  /// Returns a text such as "rank 1 ended" if this machine knows that ranks that had come have
  /// ended; else an empty one.
  std::string ended(c10d::Store& keys);

  void wait_for_all(const std::string& token);

  /// Seats all ranks. If one does not come, that is an error of all.
  void seat_all(const std::string& token);

  /// Answers a rank, also if it asks again, until it has taken its seat.
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
