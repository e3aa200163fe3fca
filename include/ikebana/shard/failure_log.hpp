#pragma once
// Why a process group failed, as its ranks tell each other through the store.
#include <chrono>
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <memory>
#include <string>
#include <thread>

namespace ikebana::detail {

/// The reports of ranks whose process group failed. A store that does not answer is given up: its
/// process may be stopped, and c10d's clients then wait for ever.
class FailureLog {
 public:
  FailureLog(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size)
      : shared_(std::make_shared<Shared>(Shared{std::move(store), rank, size})) {}

  /// True where a call of the store has not returned.
  bool is_stuck() const { return stuck_; }
  /// This rank is the first to fail, or another one was before.
  void report(const std::string& prefix, const std::string& why) noexcept {
    within(std::chrono::milliseconds(1500), [prefix, why](Shared& s) {
      s.store->compareSet(prefix + "failed", {},
                          bytes("rank " + std::to_string(s.rank) + ": " + why));
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
      s.store->set(prefix + "abandoned", bytes("1"));
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
  static std::vector<std::uint8_t> bytes(const std::string& text) {
    return {text.begin(), text.end()};
  }
  /// Waits until a rank has reported, or all have seen the failure, at most 0.7 s. The rest of the
  /// limit of `within` is for the answers of a slow store.
  static std::string asked(Shared& s, const std::string& prefix) {
    s.store->set(prefix + "seen/" + std::to_string(s.rank), bytes("1"));
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
  /// The result of `f`, or nothing where it does not return in time, or throws.
  template <class F>
  std::optional<std::string> within(std::chrono::milliseconds limit, F f) noexcept {
    try {
      if (stuck_) return {};
      std::promise<std::optional<std::string>> promise;
      auto result = promise.get_future();
      std::thread([shared = shared_, f, promise = std::move(promise)]() mutable {
        try {
          promise.set_value(f(*shared));
        } catch (...) {
          promise.set_value({});
        }
      }).detach();
      stuck_ = result.wait_for(limit) != std::future_status::ready;
      return stuck_ ? std::nullopt : result.get();
    } catch (...) {  // no thread, or no memory
      return {};
    }
  }

  std::shared_ptr<Shared> shared_;
  bool stuck_ = false;
};

}  // namespace ikebana::detail
