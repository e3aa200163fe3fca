#pragma once
// Why a process group failed, as its ranks tell each other through the store.
#include <ikebana/shard/store_calls.hpp>

namespace ikebana::detail {

/// The reports of ranks whose process group failed.
class FailureLog {
 public:
  FailureLog(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size)
      : shared_(std::make_shared<Shared>(Shared{store, rank, size})), calls_(std::move(store)) {}

  /// True where a call of the store has not returned.
  bool is_stuck() const { return calls_.is_stuck(); }
  /// This rank is the first to fail, or another one was before.
  void report(const std::string& prefix, const std::string& why) noexcept {
    within(std::chrono::milliseconds(1500), [prefix, why](Shared& s) {
      s.store->compareSet(prefix + "failed", {},
                          bytes_of("rank " + std::to_string(s.rank) + ": " + why));
      return std::string();
    });
  }
  /// What another rank reported; or which ranks give no sign of life; or `error`.
  std::string reason(const std::string& prefix, const std::string& error) {
    const auto text =
        within(std::chrono::milliseconds(1500), [prefix](Shared& s) { return asked(s, prefix); });
    if (!text)
      return "rank 0, whose process holds the store of the ranks, does not answer any more (" +
             error + ")";
    return text->empty() ? error : *text + (text->rfind("rank ", 0) == 0 ? "" : " (" + error + ")");
  }
  /// Ranks did not meet under this prefix in time: what they left there is of no use to a later
  /// try.
  void abandon(const std::string& prefix) noexcept {
    within(std::chrono::milliseconds(1500), [prefix](Shared& s) {
      s.store->set(prefix + "abandoned", bytes_of("1"));
      return std::string();
    });
  }
  bool is_abandoned(const std::string& prefix) {
    const auto text = within(std::chrono::milliseconds(1500), [prefix](Shared& s) {
      return std::string(s.store->check({prefix + "abandoned"}) ? "1" : "");
    });
    return text && !text->empty();
  }

 private:
  struct Shared {
    c10::intrusive_ptr<c10d::Store> store;
    std::int64_t rank, size;
  };
  /// Waits until a rank has reported, or all have seen the failure, at most 0.7 s. The rest of the
  /// limit of `within` is for the answers of a slow store.
  static std::string asked(Shared& s, const std::string& prefix) {
    s.store->set(prefix + "seen/" + std::to_string(s.rank), bytes_of("1"));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
    std::string missing;
    auto silent = [&] { return missing + " ended, or did not answer in time"; };
    try {
      for (;;) {
        if (s.store->check({prefix + "failed"})) {
          const auto text = s.store->get(prefix + "failed");
          return {text.begin(), text.end()};
        }
        std::string now;
        for (std::int64_t r = 0; r < s.size; ++r)
          if (!s.store->check({prefix + "seen/" + std::to_string(r)}))
            now += (now.empty() ? "rank " : ", rank ") + std::to_string(r);
        missing = now;
        if (missing.empty()) return {};
        if (std::chrono::steady_clock::now() > end) return silent();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } catch (const std::exception&) {  // rank 0 has waited as long, and has ended with the store
      if (missing.empty()) throw;
      return silent();
    }
  }
  template <class F>
  std::optional<std::string> within(std::chrono::milliseconds limit, F f) noexcept {
    return calls_.within(limit, [shared = shared_, f](c10d::Store&) { return f(*shared); });
  }

  std::shared_ptr<Shared> shared_;
  StoreCalls calls_;
};

}  // namespace ikebana::detail
