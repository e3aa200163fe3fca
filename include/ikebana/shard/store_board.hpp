#pragma once
// The board of ranks that share a store of c10d.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/process_group.hpp>
#include <mutex>

namespace ikebana::detail {

class StoreBoard final : public RankBoard {
 public:
  StoreBoard(StorePtr store, const GroupMembers& members)
      : calls_(std::move(store)), time_limit_(members.timeout), watch_(members.watch) {}

  void post(const std::string& key, const std::string& text) override {
    call([key, text](c10d::Store& store) {
      store.set("board/" + key, bytes_of(text));
      return std::string();
    });
  }
  std::optional<std::string> look(const std::string& key) override {
    const std::string text = call([name = "board/" + key](c10d::Store& store) {
      if (!store.check({name})) return std::string();
      const auto found = store.get(name);
      return "+" + std::string(found.begin(), found.end());
    });
    return text.empty() ? std::nullopt : std::optional(text.substr(1));
  }
  void remove(const std::string& key) override {
    call([name = "board/" + key](c10d::Store& store) {
      store.deleteKey(name);
      return std::string();
    });
  }
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
