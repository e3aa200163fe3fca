#pragma once
// Saves asynchronously: training waits for a copy in memory, and a thread writes the copy.
#include <atomic>
#include <functional>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/saved_state.hpp>

namespace ikebana {

/// A save that a thread writes.
class PendingSave {
 public:
  PendingSave() = default;

  /// Returns when the state is durable. Throws the error of the save at every call, and an Error in
  /// a forked child, because the process that began the save writes it.
  void wait() const;
  /// Returns whether `wait` would return at once.
  bool ready() const;

 private:
  friend class AsyncSaver;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Copies states and writes the copies, one at a time. Keeps the copy's memory for the next save.
class AsyncSaver {
 public:
  AsyncSaver() = default;
  /// While an exception passes, a save waits no longer than a second for other ranks.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Returns when `state` is copied; the thread calls `write(copy)`. First waits for the previous
  /// save, and throws its error if no code has waited for it.
  template <class Write>
  PendingSave save(const StateDict& state, Write write) {
    if constexpr (std::is_copy_constructible_v<Write>) {
      return begin(state, std::move(write));
    } else {
      auto shared = std::make_shared<Write>(std::move(write));
      return begin(state, [shared](const StateDict& copy) { std::as_const (*shared)(copy); });
    }
  }
  /// Becomes true if the save should end soon.
  std::shared_ptr<const std::atomic<bool>> hurries() const { return hurries_; }
  bool is_busy() const { return !pending_.ready(); }
  /// Waits until no save is being written. Throws its error if no code has waited for it. In a
  /// forked child, leaves a save of the other process to that process.
  void finish();

 private:
  PendingSave begin(const StateDict& state, std::function<void(const StateDict&)> write);
  void copy(const StateDict& state);
  void copy_each(const StateDict& state);

  StateDict copy_;
  std::shared_ptr<std::atomic<bool>> hurries_ = std::make_shared<std::atomic<bool>>(false);
  PendingSave pending_;
};

namespace detail {

/// Copies `from` to `to`, which is dense, on the CPU and of the same dtype. Uses LibTorch's
/// threads. A copy from a device is complete after `wait_for_copies`.
void copy_bytes(const at::Tensor& to, const at::Tensor& from);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/async_save.ipp>
#endif
