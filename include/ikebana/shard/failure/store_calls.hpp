#pragma once
// Calls of a store that are given up if they do not return: the store's process may be stopped, and
// c10d's clients then wait without end.
#include <chrono>
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ikebana::detail {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

inline std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

/// Calls `f` in a thread of its own, and returns its result, or no value if it has not returned
/// within the limit. The thread is left behind then, so `f` must own what it uses.
template <class F>
auto returned_within(std::chrono::milliseconds limit, F f) -> std::optional<decltype(f())> {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) return {};
  return result.get();
}

/// A store, called by threads that are left behind if a call does not return.
class StoreCalls {
 public:
  explicit StoreCalls(StorePtr store) : store_(std::move(store)) {}

  /// Returns true if a call has not returned. No other call is made then.
  bool is_stuck() const { return stuck_; }
  /// Returns the result of `f(store)`, a text, or no value if `f` throws or does not return in
  /// time.
  template <class F>
  std::optional<std::string> within(std::chrono::milliseconds limit, F f) noexcept {
    try {
      if (stuck_) return {};
      std::promise<std::optional<std::string>> promise;
      auto result = promise.get_future();
      std::thread([store = store_, f, promise = std::move(promise)]() mutable {
        try {
          promise.set_value(f(*store));
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

 private:
  StorePtr store_;
  bool stuck_ = false;
};

}  // namespace ikebana::detail
