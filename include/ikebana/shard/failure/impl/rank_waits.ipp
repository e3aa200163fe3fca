#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/library.hpp>
#include <ikebana/shard/failure/rank_waits.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE CallPlace WaitRecord::of(std::size_t which) const {
  return which < begun.size() ? begun[which] : CallPlace();
}

IKEBANA_INLINE bool WaitRecord::waits_for(const WaitRecord& other) const {
  return trainer != other.trainer && other.of(trainer) < of(trainer);
}

IKEBANA_INLINE std::string WaitRecord::text() const {
  std::ostringstream out;
  out << wait << ' ' << trainer << ' ' << begun.size() << ' ' << seen.size() << ' ' << is_refused;
  for (const CallPlace& place : begun) out << ' ' << place.meeting << ' ' << place.exchange;
  for (const std::int64_t other : seen) out << ' ' << other;
  out << '\n' << where;
  return out.str();
}

IKEBANA_INLINE WaitRecord WaitRecord::read(const std::string& text) {
  WaitRecord record;
  std::istringstream in(text);
  std::size_t trainers = 0, ranks = 0;
  in >> record.wait >> record.trainer >> trainers >> ranks >> record.is_refused;
  record.begun.resize(trainers), record.seen.resize(ranks);
  for (CallPlace& place : record.begun) in >> place.meeting >> place.exchange;
  for (std::int64_t& other : record.seen) in >> other;
  record.where = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
  return record;
}

IKEBANA_INLINE void RankWaits::add_trainer(std::size_t trainer) {
  const std::lock_guard lock(mutex_);
  begun_.resize(std::max(begun_.size(), trainer + 1));
}

IKEBANA_INLINE void RankWaits::enter() {
  const std::lock_guard lock(mutex_);
  if (thread_ == std::this_thread::get_id()) return;
  if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id(), start();
  else has_threads_ = true;
}

IKEBANA_INLINE void RankWaits::begin_meeting(std::size_t trainer, std::int64_t meeting) {
  const std::lock_guard lock(mutex_);
  begun_[trainer] = {meeting, -1};  // the wait for the meeting is call 0
}

IKEBANA_INLINE std::string RankWaits::reason() {
  const WaitRecord own = lasting();
  if (own.wait != 0) refuse(own.wait, asked(own));
  return refusal();
}

IKEBANA_INLINE std::string RankWaits::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

IKEBANA_INLINE void RankWaits::throw_refusal() const {
  if (const std::string text = refusal(); !text.empty()) throw RanksDiffer(text);
}

IKEBANA_INLINE RankWaits::Scope::Scope(RankWaits* waits, std::size_t trainer,
                                       const std::string& name, const std::string& call)
    : waits_(waits) {
  if (waits_ != nullptr) waits_->begin({trainer, &name, &call, Clock::now()});
}

IKEBANA_INLINE RankWaits::Scope::~Scope() {
  if (waits_ != nullptr) waits_->end();
}

IKEBANA_INLINE RankWaits::Messages::Messages(RankWaits* waits, const MessageWorks& works)
    : waits_(waits) {
  if (waits_ != nullptr) waits_->watch(&works);
}

IKEBANA_INLINE RankWaits::Messages::~Messages() {
  if (waits_ != nullptr) waits_->watch(nullptr);
}

IKEBANA_INLINE void RankWaits::begin(const Call& call) noexcept {
  const std::lock_guard lock(mutex_);
  ++begun_[call.trainer].exchange;
  call_ = call, ++wait_, refusal_.clear();
}

IKEBANA_INLINE void RankWaits::end() noexcept {
  const std::lock_guard lock(mutex_);
  call_ = {}, refusal_.clear();
}

IKEBANA_INLINE void RankWaits::watch(const MessageWorks* works) noexcept {
  const std::lock_guard lock(mutex_);
  works_ = works;
  if (works_ != nullptr && call_.name != nullptr && !refusal_.empty()) works_->abort();
}

IKEBANA_INLINE void RankWaits::start() noexcept {
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

IKEBANA_INLINE RankWaits::Milliseconds RankWaits::look(Milliseconds pause) noexcept {
  try {
    const WaitRecord own = lasting();
    if (own.wait == 0) return between_looks;
    if (std::exchange(looked_, own.wait) != own.wait) pause = first_pause;
    bool has_news = false;
    refuse(own.wait, asked(own, &has_news));
    if (has_news) pause = first_pause;  // the other rank asks, too
  } catch (const std::exception&) {     // no memory
  }
  const auto most = Milliseconds(1000) + Milliseconds(20) * static_cast<std::int64_t>(size_);
  return std::min<Milliseconds>(2 * pause, most);
}

IKEBANA_INLINE std::string RankWaits::asked(const WaitRecord& own, bool* has_news) {
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

IKEBANA_INLINE WaitRecord RankWaits::lasting() const {
  const std::lock_guard lock(mutex_);
  if (call_.name == nullptr || has_threads_ || Clock::now() < call_.since + long_wait) return {};
  const std::string line = call_.text->substr(0, std::min<std::size_t>(call_.text->find('\n'), 80));
  const bool is_name = std::all_of(line.begin(), line.end(), [](char c) { return c >= ' '; });
  return {.wait = wait_,
          .trainer = call_.trainer,
          .where = (is_name ? line : "a call") + " (trainer " + std::to_string(call_.trainer + 1) +
                   ", `" + *call_.name + "`)",
          .begun = begun_};
}

IKEBANA_INLINE bool RankWaits::is_in(std::int64_t wait) const {
  const std::lock_guard lock(mutex_);
  return wait_ == wait && call_.name != nullptr && !has_threads_;
}

IKEBANA_INLINE void RankWaits::refuse(std::int64_t wait, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why.empty() || wait_ != wait || call_.name == nullptr || has_threads_) return;
  refusal_ = why;
  if (works_ != nullptr) works_->abort();
}

IKEBANA_INLINE std::string RankWaits::ask(c10d::Store& store, const WaitRecord& own) {
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

IKEBANA_INLINE std::string RankWaits::compare(c10d::Store& store, bool& all_know) {
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

IKEBANA_INLINE std::string RankWaits::text(std::size_t other_rank, const WaitRecord& other) const {
  auto at = [&](std::size_t rank) { return "at " + (rank == rank_ ? posted_ : other).where; };
  const auto [first, second] = std::minmax(rank_, other_rank);
  return "ranks: rank " + std::to_string(first) + " is " + at(first) + ", and rank " +
         std::to_string(second) + " " + at(second) +
         ", so that each waits for the other. A rank counts its trainers as it makes them: make "
         "and step trainers in the same order on all ranks.";
}

}  // namespace ikebana::detail
