#pragma once
// Calls of a store that are given up where they do not return: its process may be stopped, and
// c10d's clients then wait for ever.
#include <chrono>
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <optional>
#include <string>
#include <thread>

namespace ikebana::detail {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::vector<std::uint8_t> bytes_of(const std::string& text);

/// Calls `f` by a thread of its own, and returns its result. Nothing where it has not returned
/// within the limit: the thread is left behind then, so `f` owns what it uses.
template <class F>
auto returned_within(std::chrono::milliseconds limit, F f) -> std::optional<decltype(f())> {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) return {};
  return result.get();
}

/// A store, called by threads that are left behind where a call does not return.
class StoreCalls {
 public:
  explicit StoreCalls(StorePtr store) : store_(std::move(store)) {}

  /// True where a call has not returned. No other one is made then.
  bool is_stuck() const { return stuck_; }
  /// The result of `f(store)`, a text, or nothing where it does not return in time, or throws.
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

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/store_calls.ipp>
#endif
