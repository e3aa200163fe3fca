#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/sockets.hpp>
#include <ikebana/shard/launch/meeting.hpp>
#include <random>

namespace ikebana::detail {

IKEBANA_INLINE Deadline::Milliseconds Deadline::left() const {
  return std::max(std::chrono::duration_cast<Milliseconds>(end_ - Clock::now()), Milliseconds(0));
}

IKEBANA_INLINE std::string Deadline::text() const {
  return std::to_string(limit_.count() / 1000) + "." + std::to_string(limit_.count() % 1000 / 100) +
         " s";
}

IKEBANA_INLINE bool Deadline::wait(c10d::Store& store, const std::string& key) const {
  return wait([&] { return store.check({key}); });
}

IKEBANA_INLINE std::string address_of(const World& world) {
  return world.master_addr + ":" + std::to_string(world.master_port);
}

IKEBANA_INLINE std::string rank_text(const World& world) {
  return "rank " + std::to_string(world.rank) + " of " + std::to_string(world.size);
}

inline c10d::TCPStoreOptions store_options(const World& world, const Deadline& deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.isServer = world.rank == 0 && !world.agent_store;
  options.waitWorkers = false;  // since Meeting names the ranks that do not come
  options.timeout = std::max(deadline.left(), Deadline::Milliseconds(1));
  options.multiTenant = true;  // several stores of one process share the server
  if (options.isServer && listening_port(world.listen_fd) == world.master_port)
    options.masterListenFd = world.listen_fd;
  return options;
}

[[noreturn]] inline void throw_unreachable(const World& world, const Deadline& deadline,
                                           const std::string& reason) {
  throw RankFailed(
      "make_store: " + rank_text(world) + " cannot reach rank 0 at " + address_of(world) +
      " within " + deadline.text() + ": " + reason +
      ". Is rank 0 running, on the host that MASTER_ADDR names, is MASTER_PORT its port "
      "and no other program's, and do firewalls let it through?");
}

[[noreturn]] inline void throw_cannot_listen(const World& world, const std::string& reason) {
  throw BadValue(
      "make_store: " + rank_text(world) + " cannot listen at port " +
      std::to_string(world.master_port) + ": " + reason +
      ". Set MASTER_PORT to a port that no other program uses at the host of rank 0, the "
      "same for all ranks.");
}

IKEBANA_INLINE StorePtr connected(const World& world, const Deadline& deadline) {
  const auto options = store_options(world, deadline);
  try {
    const auto store = returned_within(options.timeout, [options, host = world.master_addr] {
      return StorePtr(c10::make_intrusive<c10d::TCPStore>(host, options));
    });
    if (store) return *store;
  } catch (const std::exception& error) {
    const std::string text = text_of(error);
    if (text.find("EADDRINUSE") != text.npos) throw_cannot_listen(world, "another program uses it");
    if (text.find("failed to listen") != text.npos) throw_cannot_listen(world, text);
    throw_unreachable(world, deadline, text);
  }
  throw_unreachable(world, deadline, "what listens there does not answer as a store of c10d");
}

IKEBANA_INLINE StorePtr connect(const World& world, const Deadline& deadline) {
  if (world.rank == 0 && !world.agent_store) {
    StorePtr store = connected(world, deadline);
    std::lock_guard lock(OwnServers::get().mutex);
    OwnServers::get().by_port.emplace(world.master_port, store);
    return store;
  }
  std::string reason;
  const std::string port = std::to_string(world.master_port);
  const bool reached = deadline.wait([&] {
    reason = reach(world.master_addr, port, static_cast<int>(deadline.left().count()));
    return reason.empty();
  });
  if (!reached) throw_unreachable(world, deadline, reason);
  return connected(world, deadline);
}

IKEBANA_INLINE std::string Meeting::token() {
  const std::string own = random_name();
  try {
    if (world_.rank == 0) return seat_all(own), own;
    const std::string token = ask(own);
    wait_for_all(token);
    return token;
  } catch (const c10::Error& error) {
    throw RankFailed(
        "make_store: " + rank_text(world_) + " lost its connection to " + address_of(world_) +
        " while the ranks met: " +
        (world_.agent_store ? "torchrun's agent" : "rank 0, whose process serves it,") +
        " ended. (" + message_of(error) + ")");
  }
}

IKEBANA_INLINE std::string Meeting::random_name() {
  std::random_device device;
  return std::to_string(device()) + "-" + std::to_string(device());
}

IKEBANA_INLINE std::string Meeting::seat_key(const std::string& token, std::int64_t rank) {
  return "seat/" + token + "/" + std::to_string(rank);
}

IKEBANA_INLINE std::string Meeting::ask(const std::string& own) const {
  server_.set("request/" + std::to_string(world_.rank), own);
  if (!deadline_.wait(server_, "reply/" + own))
    throw RankFailed("make_store: " + rank_text(world_) + " reached " + address_of(world_) +
                     ", but rank 0 did not answer there within " + deadline_.text() +
                     ". Is it running, is no other training at that port, and has each process "
                     "its own RANK?");
  const std::string reply = get("reply/" + own), token = reply.substr(0, reply.find(' '));
  const std::string size = reply.substr(token.size() + 1), rank = std::to_string(world_.rank);
  std::string refusal;
  if (size != std::to_string(world_.size))
    refusal = "rank " + rank + " was started as one of " + std::to_string(world_.size) +
              ", and rank 0 as one of " + size + ". Give all ranks the same WORLD_SIZE.";
  else if (server_.add("count/" + seat_key(token, world_.rank), 1) != 1)
    refusal = "two processes are rank " + rank + ". Give each its own RANK.";
  else watch_.announce(*keys_of(token));
  server_.set(seat_key(token, world_.rank), refusal);
  if (!refusal.empty()) throw BadValue("make_store: " + refusal);
  return token;
}

IKEBANA_INLINE StorePtr Meeting::keys_of(const std::string& token) const {
  return c10::make_intrusive<c10d::PrefixStore>(token, StorePtr::reclaim_copy(&server_));
}

IKEBANA_INLINE std::string Meeting::ended(c10d::Store& keys) {
  watch_.look(keys);
  return watch_.ended();
}

IKEBANA_INLINE void Meeting::wait_for_all(const std::string& token) {
  const StorePtr keys = keys_of(token);
  const std::string open = "open/" + token;
  std::string gone;
  const bool is_open = deadline_.wait([&] {
    gone = server_.check({open}) ? "" : ended(*keys);
    return !gone.empty() || server_.check({open});
  });
  if (!gone.empty() && !server_.check({open}))  // a rank that ended after the opening has trained
    throw RankFailed("make_store: " + gone + " while the ranks met at " + address_of(world_) +
                     ". Look at what its process printed, and why it ended.");
  if (!is_open)
    throw RankFailed("make_store: " + rank_text(world_) + " is at " + address_of(world_) +
                     ", but within " + deadline_.text() +
                     " not all other ranks have come. Were they started?");
  if (const std::string refusal = get("open/" + token); !refusal.empty()) throw RankFailed(refusal);
}

IKEBANA_INLINE void Meeting::seat_all(const std::string& token) {
  try {
    watch_.announce(*keys_of(token));
    for (std::int64_t rank = 1; rank < world_.size; ++rank) seat(rank, token);
    server_.set("open/" + token, std::string());
  } catch (const Error& error) {
    server_.set("open/" + token, std::string(error.what()));
    throw;
  }
}

IKEBANA_INLINE void Meeting::seat(std::int64_t rank, const std::string& token) {
  const StorePtr keys = keys_of(token);
  const std::string request = "request/" + std::to_string(rank), key = seat_key(token, rank);
  std::string answered;
  auto has_come = [&] {
    if (!server_.check({request})) return false;
    const std::string asked = get(request);
    if (asked != answered) server_.set("reply/" + asked, token + " " + std::to_string(world_.size));
    answered = asked;
    return server_.check({key});
  };
  std::string gone;
  const bool came = deadline_.wait([&] {
    if (has_come()) return true;
    gone = ended(*keys);
    return !gone.empty();
  });
  if (!gone.empty())
    throw RankFailed("make_store: " + gone + " while rank " + std::to_string(rank) + " of " +
                     std::to_string(world_.size) + " had not come to " + address_of(world_) +
                     ". Look at what the process that ended printed, and why it ended.");
  if (!came)
    throw RankFailed("make_store: rank " + std::to_string(rank) + " of " +
                     std::to_string(world_.size) + " has not come to " + address_of(world_) +
                     " within " + deadline_.text() +
                     ". Was it started, with the same MASTER_ADDR and MASTER_PORT, and has each "
                     "process its own RANK?");
  if (const std::string refusal = get(key); !refusal.empty())
    throw BadValue("make_store: " + refusal);
}

}  // namespace ikebana::detail
