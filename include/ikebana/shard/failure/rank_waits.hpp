#pragma once
// Finds out, by the store, that ranks wait for each other in different trainers.
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

/// A place among the calls of one trainer, which all its ranks make in the same order: the number
/// of failures when they last met, and the number of exchanges that they have begun since. It is
/// less than all others if the trainer was not made.
struct CallPlace {
  std::int64_t meeting = -1, exchange = 0;
  auto operator<=>(const CallPlace&) const = default;
};

/// The record of one long wait of a rank, for the other ranks: where it waits, and how far each of
/// its trainers is.
struct WaitRecord {
  std::int64_t wait = 0;    ///< its number among this rank's waits, from 1
  std::size_t trainer = 0;  ///< the trainer in which it waits, by the order in which trainers were
                            ///< made
  std::string where = {};   ///< the call and the trainer, for errors
  std::vector<CallPlace> begun = {};  ///< the last call of each trainer; `trainer`'s waits
  /// For each rank, the number of its wait that was read while this one lasted, or 0 if no wait was
  /// read.
  std::vector<std::int64_t> seen = {};
  bool is_refused = false;  ///< it will end with an error

  CallPlace of(std::size_t which) const;
  /// Returns true if `other`, as long as it waits, cannot come to the call in which this one waits.
  bool waits_for(const WaitRecord& other) const;
  std::string text() const;
  /// Returns the record from which `text` was made.
  static WaitRecord read(const std::string& text);
};

/// The waits of one rank in the trainers of one process group. A thread posts a wait of more than a
/// second in the store, and compares it with the waits of the other ranks: if two ranks wait in
/// different trainers, and neither has come to the call of the other, both get an error. A wait
/// that ends before costs two locks. Nothing is compared once several threads have called trainers
/// of the group, since another thread may then come to the call.
class RankWaits : public std::enable_shared_from_this<RankWaits> {
 public:
  RankWaits(std::int64_t rank, std::int64_t size, StorePtr store)
      : rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        calls_(std::move(store)) {}

  /// Is called when the next trainer of this rank is made.
  void add_trainer(std::size_t trainer);
  /// Is called when this thread calls a trainer.
  void enter();
  /// Is called when the ranks of a trainer are about to meet, the first time or after a failure.
  void begin_meeting(std::size_t trainer, std::int64_t meeting);
  /// Is called when the present wait has ended without an answer: returns the reason if that is a
  /// wait in another trainer, else an empty text. The other rank may have thrown, and dropped the
  /// connection, before this one has looked.
  std::string reason();
  /// Returns the reason for which the present wait is to end, or an empty text if it may go on.
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
  /// RAII: messages that the call waits for now, which are given up if the wait is refused.
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

  /// Starts the thread that looks until the group has ended. It sees that only after its pause, so
  /// this library stays loaded. If no thread can be started, nothing is compared.
  void start() noexcept;
  /// Compares a wait that lasts. Returns the pause before the next look: pauses grow, since the
  /// others may compute for long.
  Milliseconds look(Milliseconds pause) noexcept;
  /// Returns the result of `ask`; empty if the store does not answer.
  std::string asked(const WaitRecord& own, bool* has_news = nullptr);
  /// Returns the wait of this rank if it is long, else a record without a wait.
  WaitRecord lasting() const;
  bool is_in(std::int64_t wait) const;
  void refuse(std::int64_t wait, const std::string& why);

  static std::string key(std::size_t rank) { return "waits/" + std::to_string(rank); }
  void post(c10d::Store& store) const { store.set(key(rank_), bytes_of(posted_.text())); }
  /// Posts the wait. Returns an empty text if the wait may end, or else the reason why it cannot.
  /// With a reason, it returns only when the other ranks of the cycle know it, too. A rank that
  /// throws before could go on to the call for which another one waits, which would then get no
  /// error.
  std::string ask(c10d::Store& store, const WaitRecord& own);
  /// Returns why the wait cannot end: another rank has read of it while that rank waited, and this
  /// one still waits, so both waited at once.
  std::string compare(c10d::Store& store, bool& all_know);
  std::string text(std::size_t other_rank, const WaitRecord& other) const;

  std::size_t rank_, size_;
  mutable std::mutex mutex_;
  std::vector<CallPlace> begun_;
  std::thread::id thread_;  // the thread that calls the trainers
  bool has_threads_ = false;
  Call call_;  // the call in which this rank waits; without a name if it does not wait
  std::int64_t wait_ = 0;
  std::string refusal_;
  const MessageWorks* works_ = nullptr;
  std::int64_t looked_ = 0;  // the wait of the last look
  std::mutex asking_;        // guards the members below
  StoreCalls calls_;
  WaitRecord posted_;
  bool has_news_ = false;  // about a wait that this one waits for
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/rank_waits.ipp>
#endif
