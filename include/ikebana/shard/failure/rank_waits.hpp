#pragma once
// Ranks that wait for each other in different trainers find that out by the store.
#include <chrono>
#include <compare>
#include <cstdint>
#include <ikebana/shard/failure/store_calls.hpp>
#include <ikebana/shard/group/transfer.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// A place among the calls of one trainer, which its ranks make in one order: how often they had
/// failed when they met, and how many exchanges they have begun since. Less than all others where
/// the trainer was not made.
struct CallPlace {
  std::int64_t meeting = -1, exchange = 0;
  auto operator<=>(const CallPlace&) const = default;
};

/// One wait of a rank.
struct WaitRecord {
  std::int64_t wait = 0;              ///< which of this rank's, from 1
  std::size_t trainer = 0;            ///< in which it waits, in the order in which they were made
  std::string where = {};             ///< the call and the trainer, for errors
  std::vector<CallPlace> begun = {};  ///< the last call of each trainer; that of `trainer` waits
  /// For each rank the wait that was read there while this one lasted; 0 for none.
  std::vector<std::int64_t> seen = {};
  bool is_refused = false;  ///< it will end with an error

  CallPlace of(std::size_t which) const;
  /// True where `other`, if it waits meanwhile, does not come to the call in which this one waits.
  bool waits_for(const WaitRecord& other) const;
  std::string text() const;
  /// Back from `text`.
  static WaitRecord read(const std::string& text);
};

/// The waits of one rank in the trainers of one process group. A wait of more than a second is
/// posted in the store, by a thread of its own, and compared with those of the other ranks: where
/// two ranks wait in different trainers, and neither has come to the call of the other, both get an
/// error. A wait that ends before costs two locks. Nothing is compared once several threads have
/// called trainers of the group: another thread may then come to the call.
class RankWaits : public std::enable_shared_from_this<RankWaits> {
 public:
  RankWaits(std::int64_t rank, std::int64_t size, StorePtr store)
      : rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        calls_(std::move(store)) {}

  /// A trainer is made, the next of this rank.
  void add_trainer(std::size_t trainer);
  /// This thread calls a trainer.
  void enter();
  /// The ranks of a trainer are about to meet, the first time or after a failure.
  void begin_meeting(std::size_t trainer, std::int64_t meeting);
  /// Why the present wait has ended without an answer, if that is another trainer; else empty. The
  /// other rank may have thrown before this one has looked, and have dropped the connection.
  std::string reason();
  /// Why the present wait is to end; empty for none.
  std::string refusal() const;
  void throw_refusal() const;

  /// RAII: a call of a trainer in which this rank waits for the others. Keeps references to the
  /// texts. Does nothing without `waits`.
  class Scope {
   public:
    Scope(RankWaits* waits, std::size_t trainer, const std::string& name, const std::string& call);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RankWaits* waits_;
  };
  /// RAII: messages that the call waits for now, which are given up where it is refused.
  class Messages {
   public:
    Messages(RankWaits* waits, const MessageWorks& works);
    ~Messages();
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

   private:
    RankWaits* waits_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  struct Call {
    std::size_t trainer = 0;
    const std::string *name = nullptr, *text = nullptr;
    Clock::time_point since = {};
  };
  static constexpr Milliseconds long_wait{1000}, between_looks{250}, first_pause{25},
      until_all_know{2000};

  void begin(const Call& call) noexcept;
  void end() noexcept;
  void watch(const MessageWorks* works) noexcept;

  /// Begins to look, until the group has ended, which the thread sees after its pause: so this
  /// library stays loaded. Without a thread nothing is compared.
  void start() noexcept;
  /// Compares a wait that lasts. Returns the pause before the next look: they grow, since the
  /// others may compute for long.
  Milliseconds look(Milliseconds pause) noexcept;
  /// The result of `ask`; empty where the store does not answer.
  std::string asked(const WaitRecord& own, bool* has_news = nullptr);
  /// The wait of this rank, if it is long; else none.
  WaitRecord lasting() const;
  bool is_in(std::int64_t wait) const;
  void refuse(std::int64_t wait, const std::string& why);

  static std::string key(std::size_t rank) { return "waits/" + std::to_string(rank); }
  void post(c10d::Store& store) const { store.set(key(rank_), bytes_of(posted_.text())); }
  /// Posts the wait, and returns why it cannot end; empty where it may. Then it returns when the
  /// ranks in question know, too: one that throws before may go on to the call that another waits
  /// for, which then gets no error.
  std::string ask(c10d::Store& store, const WaitRecord& own);
  /// The wait cannot end where another rank has read of it while that one waited, and this one
  /// still waits: so both waited at once.
  std::string compare(c10d::Store& store, bool& all_know);
  std::string text(std::size_t other_rank, const WaitRecord& other) const;

  std::size_t rank_, size_;
  mutable std::mutex mutex_;
  std::vector<CallPlace> begun_;
  std::thread::id thread_;  // that calls the trainers
  bool has_threads_ = false;
  Call call_;  // in which this rank waits; without a name: none
  std::int64_t wait_ = 0;
  std::string refusal_;
  const MessageWorks* works_ = nullptr;
  std::int64_t looked_ = 0;  // the wait of the last look
  std::mutex asking_;        // for what follows
  StoreCalls calls_;
  WaitRecord posted_;
  bool has_news_ = false;  // of a wait that this one waits for
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/rank_waits.ipp>
#endif
