#pragma once
// Ranks that wait for each other in different trainers find that out by the store.
#include <algorithm>
#include <chrono>
#include <ikebana/posix/library.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/store_calls.hpp>
#include <ikebana/shard/transfer.hpp>
#include <ikebana/shard/wait_record.hpp>
#include <mutex>
#include <thread>
#include <utility>

namespace ikebana::detail {

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
  void add_trainer(std::size_t trainer) {
    const std::lock_guard lock(mutex_);
    begun_.resize(std::max(begun_.size(), trainer + 1));
  }
  /// This thread calls a trainer.
  void enter() {
    const std::lock_guard lock(mutex_);
    if (thread_ == std::this_thread::get_id()) return;
    if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id(), start();
    else has_threads_ = true;
  }
  /// The ranks of a trainer are about to meet, the first time or after a failure.
  void begin_meeting(std::size_t trainer, std::int64_t meeting) {
    const std::lock_guard lock(mutex_);
    begun_[trainer] = {meeting, -1};  // the wait for it is its call 0
  }
  /// Why the present wait has ended without an answer, if that is another trainer; else empty. The
  /// other rank may have thrown before this one has looked, and have dropped the connection.
  std::string reason() {
    const WaitRecord own = lasting();
    if (own.wait != 0) refuse(own.wait, asked(own));
    return refusal();
  }
  /// Why the present wait is to end; empty for none.
  std::string refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }
  void throw_refusal() const {
    if (const std::string text = refusal(); !text.empty()) throw RanksDiffer(text);
  }

  /// RAII: a call of a trainer in which this rank waits for the others. Keeps references to the
  /// texts. Does nothing without `waits`.
  class Scope {
   public:
    Scope(RankWaits* waits, std::size_t trainer, const std::string& name, const std::string& call)
        : waits_(waits) {
      if (waits_ != nullptr) waits_->begin({trainer, &name, &call, Clock::now()});
    }
    ~Scope() {
      if (waits_ != nullptr) waits_->end();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RankWaits* waits_;
  };
  /// RAII: messages that the call waits for now, which are given up where it is refused.
  class Messages {
   public:
    Messages(RankWaits* waits, const MessageWorks& works) : waits_(waits) {
      if (waits_ != nullptr) waits_->watch(&works);
    }
    ~Messages() {
      if (waits_ != nullptr) waits_->watch(nullptr);
    }
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

  void begin(const Call& call) noexcept {
    const std::lock_guard lock(mutex_);
    ++begun_[call.trainer].exchange;
    call_ = call, ++wait_, refusal_.clear();
  }
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    call_ = {}, refusal_.clear();
  }
  void watch(const MessageWorks* works) noexcept {
    const std::lock_guard lock(mutex_);
    works_ = works;
    if (works_ != nullptr && call_.name != nullptr && !refusal_.empty()) works_->abort();
  }

  /// Begins to look, until the group has ended, which the thread sees after its pause: so this
  /// library stays loaded. Without a thread nothing is compared.
  void start() noexcept {
    try {
      keep_loaded(reinterpret_cast<const void*>(&RankWaits::key));
      std::thread([weak = weak_from_this()] {
        for (Milliseconds pause = between_looks;;) {
          std::this_thread::sleep_for(pause);
          const auto waits = weak.lock();
          if (waits == nullptr) return;
          pause = waits->look(pause);
        }
      }).detach();
    } catch (const std::exception&) {
    }
  }
  /// Compares a wait that lasts. Returns the pause before the next look: they grow, since the
  /// others may compute for long.
  Milliseconds look(Milliseconds pause) noexcept {
    try {
      const WaitRecord own = lasting();
      if (own.wait == 0) return between_looks;
      if (std::exchange(looked_, own.wait) != own.wait) pause = first_pause;
      bool has_news = false;
      refuse(own.wait, asked(own, &has_news));
      if (has_news) pause = first_pause;  // the other one asks, too
    } catch (const std::exception&) {     // no memory
    }
    const auto most = Milliseconds(1000) + Milliseconds(20) * static_cast<std::int64_t>(size_);
    return std::min<Milliseconds>(2 * pause, most);
  }
  /// The result of `ask`; empty where the store does not answer.
  std::string asked(const WaitRecord& own, bool* has_news = nullptr) {
    const std::lock_guard lock(asking_);
    if (calls_.is_stuck()) return {};
    has_news_ = false;
    const auto blocked = calls_.within(
        std::chrono::seconds(5),
        [self = shared_from_this(), own](c10d::Store& store) { return self->ask(store, own); });
    if (!blocked) return {};
    if (has_news != nullptr) *has_news = has_news_;
    return *blocked;
  }
  /// The wait of this rank, if it is long; else none.
  WaitRecord lasting() const {
    const std::lock_guard lock(mutex_);
    if (call_.name == nullptr || has_threads_ || Clock::now() < call_.since + long_wait) return {};
    const std::string line =
        call_.text->substr(0, std::min<std::size_t>(call_.text->find('\n'), 80));
    const bool is_name = std::all_of(line.begin(), line.end(), [](char c) { return c >= ' '; });
    return {.wait = wait_,
            .trainer = call_.trainer,
            .where = (is_name ? line : "a call") + " (trainer " +
                     std::to_string(call_.trainer + 1) + ", `" + *call_.name + "`)",
            .begun = begun_};
  }
  bool is_in(std::int64_t wait) const {
    const std::lock_guard lock(mutex_);
    return wait_ == wait && call_.name != nullptr && !has_threads_;
  }
  void refuse(std::int64_t wait, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why.empty() || wait_ != wait || call_.name == nullptr || has_threads_) return;
    refusal_ = why;
    if (works_ != nullptr) works_->abort();
  }

  static std::string key(std::size_t rank) { return "waits/" + std::to_string(rank); }
  void post(c10d::Store& store) const { store.set(key(rank_), bytes_of(posted_.text())); }
  /// Posts the wait, and returns why it cannot end; empty where it may. Then it returns when the
  /// ranks in question know, too: one that throws before may go on to the call that another waits
  /// for, which then gets no error.
  std::string ask(c10d::Store& store, const WaitRecord& own) {
    if (own.wait != posted_.wait) {
      if (own.begun.size() > 1) store.set("waits/several", bytes_of("1"));
      else if (!store.check({"waits/several"})) return {};  // there is one trainer
      posted_ = own, posted_.seen.assign(size_, 0);
      post(store);
    }
    const auto end = Clock::now() + until_all_know;
    for (;;) {
      bool all_know = true;
      const std::string why = compare(store, all_know);
      if (why.empty() || all_know || Clock::now() > end) return why;
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }
  /// The wait cannot end where another rank has read of it while that one waited, and this one
  /// still waits: so both waited at once.
  std::string compare(c10d::Store& store, bool& all_know) {
    std::string why;
    const WaitRecord before = posted_;
    for (std::size_t r = 0; r < size_; ++r) {
      if (r == rank_ || !store.check({key(r)})) continue;
      const WaitRecord other = WaitRecord::read(store.get_to_str(key(r)));
      if (!posted_.waits_for(other) || !other.waits_for(posted_)) continue;
      posted_.seen[r] = other.wait;
      if (why.empty() && other.seen[rank_] == posted_.wait) why = text(r, other);
      all_know = all_know && other.is_refused;
    }
    posted_.is_refused = !why.empty();
    const bool has_news = posted_.seen != before.seen;
    if ((has_news || posted_.is_refused != before.is_refused) && is_in(posted_.wait)) post(store);
    has_news_ = has_news_ || has_news;
    return why;
  }
  std::string text(std::size_t other_rank, const WaitRecord& other) const {
    auto at = [&](std::size_t rank) { return "at " + (rank == rank_ ? posted_ : other).where; };
    const auto [first, second] = std::minmax(rank_, other_rank);
    return "ranks: rank " + std::to_string(first) + " is " + at(first) + ", and rank " +
           std::to_string(second) + " " + at(second) +
           ", so that each waits for the other. A rank counts its trainers as it makes them: make "
           "and step trainers in the same order on all ranks.";
  }

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
