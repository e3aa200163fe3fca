#pragma once
// Defines the board of ranks, in a store of c10d that they share.
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/process_group.hpp>
#include <mutex>

namespace ikebana::detail {

class StoreBoard final : public RankBoard {
 public:
  StoreBoard(StorePtr store, const GroupMembers& members)
      : calls_(std::move(store)), time_limit_(members.timeout), watch_(members.watch) {}

  IKEBANA_INLINE void post(const std::string& key, const std::string& text) override;
  IKEBANA_INLINE std::optional<std::string> look(const std::string& key) override;
  IKEBANA_INLINE void remove(const std::string& key) override;
  bool has_ended(std::int64_t rank) const override { return watch_->has_ended(rank); }
  std::chrono::milliseconds time_limit() const override { return time_limit_; }

 private:
  static constexpr std::chrono::seconds answers_within{5};

  template <class F>
  std::string call(F f) {
    std::lock_guard lock(mutex_);
    if (const auto text = calls_.within(answers_within, std::move(f))) return *text;
    throw RankFailed(
        "ranks: the store of the ranks does not answer. Its process, that of rank 0 or torchrun's "
        "agent, has ended or is stopped: look at what it printed.");
  }

  std::mutex mutex_;
  StoreCalls calls_;
  std::chrono::milliseconds time_limit_;
  std::shared_ptr<ProcessWatch> watch_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/store_board.ipp>
#endif
