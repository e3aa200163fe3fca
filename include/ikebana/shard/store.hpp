#pragma once
// The store at which the ranks of a world meet.
#include <algorithm>
#include <chrono>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/posix/listener.hpp>
#include <ikebana/shard/world.hpp>
#include <random>
#include <thread>

namespace ikebana {
namespace detail {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// What is left of a time limit.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds limit) : limit_(limit), end_(Clock::now() + limit) {}
  std::chrono::milliseconds left() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));  // a store takes 0 for no limit
  }
  bool is_over() const { return Clock::now() >= end_; }
  std::string text() const {
    return std::to_string(limit_.count() / 1000) + "." +
           std::to_string(limit_.count() % 1000 / 100) + " s";
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds limit_;
  Clock::time_point end_;
};

inline std::string address_of(const World& world) {
  return world.master_addr + ":" + std::to_string(world.master_port);
}
inline std::string rank_text(const World& world) {
  return "rank " + std::to_string(world.rank) + " of " + std::to_string(world.size);
}

/// A connection to the world's server, which rank 0 is itself, except under torchrun.
inline StorePtr connect(const World& world, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.isServer = world.rank == 0 && !world.agent_store;
  options.waitWorkers = false;  // the ranks are told apart and named by `Meeting`
  options.timeout = timeout;
  options.multiTenant = true;  // several stores of one process share the server
  if (options.isServer && listening_port(world.listen_fd) == world.master_port)
    options.masterListenFd = world.listen_fd;
  try {
    return c10::make_intrusive<c10d::TCPStore>(world.master_addr, options);
  } catch (const std::exception& error) {
    std::string text = error.what();
    if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) text = message_of(*torch);
    const bool in_use = text.find("EADDRINUSE") != text.npos;
    const std::string where = "make_store: " + rank_text(world);
    if (in_use || text.find("failed to listen") != text.npos)
      throw BadValue(where + " cannot listen at port " + std::to_string(world.master_port) +
                     (in_use ? ", which another program uses" : "") +
                     ". Set MASTER_PORT to a port that is free at the host of rank 0, the same for "
                     "all ranks. (" +
                     text + ")");
    throw RankFailed(
        where + " cannot reach " + address_of(world) + " within " + Deadline(timeout).text() +
        ". Is rank 0 running, on the host that MASTER_ADDR names, and do firewalls let "
        "MASTER_PORT through? (" +
        text + ")");
  }
}

/// How the ranks of one start find each other at a server that may also have keys of ranks that
/// died (torchrun starts ranks anew with the same server) or of another training. Rank 0 names the
/// start by a random token. Each other rank asks for it with a random number, which rank 0
/// answers, and takes its seat; rank 0 goes on when all seats are taken. Restarts that torchrun
/// counts would not do: hosts count different ones.
class Meeting {
 public:
  Meeting(c10d::Store& server, const World& world, std::chrono::milliseconds timeout)
      : server_(server), world_(world), deadline_(timeout) {}

  /// The token, the same at all ranks and at no other start.
  std::string token() {
    const std::string own = random_name();
    try {
      if (world_.rank != 0) return ask(own);
      for (std::int64_t rank = 1; rank < world_.size; ++rank) seat(rank, own);
      return own;
    } catch (const c10::Error& error) {
      throw RankFailed("make_store: " + rank_text(world_) + " lost its connection to " +
                       address_of(world_) + " while the ranks met: another rank ended. (" +
                       message_of(error) + ")");
    }
  }

 private:
  static std::string random_name() {
    std::random_device device;
    return std::to_string(device()) + "-" + std::to_string(device());
  }
  static std::string seat_key(const std::string& token, std::int64_t rank) {
    return "seat/" + token + "/" + std::to_string(rank);
  }
  std::string get(const std::string& key) const { return server_.get_to_str(key); }

  /// False where the key was not set within a time.
  bool wait(const std::string& key, std::chrono::milliseconds time) const {
    try {
      server_.wait({key}, time);
      return true;
    } catch (const c10::DistStoreError&) {
      return false;
    }
  }

  std::string ask(const std::string& own) const {
    server_.set("request/" + std::to_string(world_.rank), own);
    if (!wait("reply/" + own, deadline_.left()))
      throw RankFailed("make_store: " + rank_text(world_) + " reached " + address_of(world_) +
                       ", but rank 0 did not answer there within " + deadline_.text() +
                       ". Is it running, and is no other training at that port?");
    const std::string reply = get("reply/" + own), token = reply.substr(0, reply.find(' '));
    const std::string size = reply.substr(token.size() + 1);
    std::string refusal;
    if (size != std::to_string(world_.size))
      refusal = "rank " + std::to_string(world_.rank) + " was started as one of " +
                std::to_string(world_.size) + ", and rank 0 as one of " + size +
                ". Give all ranks the same WORLD_SIZE.";
    else if (server_.add("count/" + seat_key(token, world_.rank), 1) != 1)
      refusal =
          "two processes are rank " + std::to_string(world_.rank) + ". Give each its own RANK.";
    server_.set(seat_key(token, world_.rank), refusal);
    if (!refusal.empty()) throw BadValue("make_store: " + refusal);
    return token;
  }

  void seat(std::int64_t rank, const std::string& token) const {
    const std::string request = "request/" + std::to_string(rank), seat = seat_key(token, rank);
    for (std::string answered; !deadline_.is_over();) {
      if (!wait(request, deadline_.left())) break;
      const std::string asked = get(request);
      if (asked != answered)
        server_.set("reply/" + asked, token + " " + std::to_string(world_.size));
      answered = asked;
      if (!wait(seat, std::chrono::milliseconds(20))) continue;  // or it asks anew
      if (const std::string refusal = get(seat); !refusal.empty())
        throw BadValue("make_store: " + refusal);
      return;
    }
    throw RankFailed("make_store: rank " + std::to_string(rank) + " of " +
                     std::to_string(world_.size) + " has not come to " + address_of(world_) +
                     " within " + deadline_.text() +
                     ". Was it started, with the same MASTER_ADDR and MASTER_PORT?");
  }

  c10d::Store& server_;
  const World& world_;
  Deadline deadline_;
};

}  // namespace detail

/// The store of the world, with keys of its own: all ranks call this, in the same order, and get
/// the same store. Rank 0 is its server, under torchrun its agent; of one rank the store is local.
/// It returns when all ranks have come, and its calls have the same time limit. Call
/// `finish_store` before rank 0 frees it.
///
/// Throws BadValue where the port is in use or two ranks contradict each other, and RankFailed
/// where a rank does not come in time.
inline c10::intrusive_ptr<c10d::Store> make_store(const World& world,
                                                  std::chrono::milliseconds timeout) {
  world.check();
  if (timeout.count() <= 0)
    throw BadValue("make_store: the timeout is " + std::to_string(timeout.count()) +
                   " ms; it must be more than 0.");
  if (world.size == 1) return c10::make_intrusive<c10d::HashStore>();
  auto server = detail::connect(world, timeout);
  const std::string job = "ikebana/" + world.job;
  c10d::PrefixStore keys(job, server);
  const std::string token = detail::Meeting(keys, world, timeout).token();
  return c10::make_intrusive<c10d::PrefixStore>(job + "/" + token, std::move(server));
}

/// The last use of a store that `make_store` made, once by each rank. Rank 0, which serves it,
/// returns when all others have called this; so it may free the store and end without cutting off
/// another rank's call. Throws RankFailed where a rank does not call it within the time.
inline void finish_store(c10d::Store& store, const World& world,
                         std::chrono::milliseconds timeout) {
  if (world.size == 1 || world.agent_store) return;
  try {
    if (world.rank == 0) store.wait({"all_finished"}, timeout);
    else if (store.add("finished", 1) == world.size - 1) store.set("all_finished", "1");
  } catch (const c10::Error& error) {
    throw RankFailed("finish_store: " + detail::rank_text(world) + " at " +
                     detail::address_of(world) +
                     ": another rank has ended before, or did not end " + "within " +
                     detail::Deadline(timeout).text() + ". (" + detail::message_of(error) + ")");
  }
}

}  // namespace ikebana
