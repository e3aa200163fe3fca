#pragma once
// Asynchronous saves: training waits for a copy in memory, and a thread writes the copy.
#include <atomic>
#include <exception>
#include <future>
#include <ikebana/posix/process.hpp>
#include <ikebana/state/copy.hpp>
#include <ikebana/state/saved_state.hpp>

namespace ikebana {

/// A save that a thread is writing.
class PendingSave {
 public:
  PendingSave() = default;

  /// Returns when the state is durable. Throws the error of the save, at every call, and an Error
  /// in a forked child: the process that began the save writes it.
  void wait() const {
    if (!shared_) return;
    if (shared_->process.is_inherited())
      throw Error(
          "save: the process that this one was forked from writes this state. Wait for it there.");
    shared_->was_waited_for = true;
    shared_->result.get();
  }
  /// Whether `wait` would return at once.
  bool ready() const {
    return !shared_ ||
           shared_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  friend class AsyncSaver;
  struct Shared {
    std::shared_future<void> result;
    std::atomic<bool> was_waited_for = false;
    detail::OwnProcess process;
  };
  std::shared_ptr<Shared> shared_;
};

/// Copies states and writes the copies, one at a time. Keeps the copy's memory for the next save.
class AsyncSaver {
 public:
  AsyncSaver() = default;
  /// While an exception passes, a save waits no longer than a second for other ranks.
  ~AsyncSaver() {
    if (std::uncaught_exceptions() > 0) *hurries_ = true;
    try {
      finish();
    } catch (const std::exception& error) {
      TORCH_WARN("An asynchronous save failed, and no code waited for it: ", error.what());
    }
  }
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Returns when `state` is copied; the thread calls `write(copy)`. First waits for the previous
  /// save, and throws its error if no code has waited for it.
  template <class Write>
  PendingSave save(const StateDict& state, Write write) {
    finish();
    copy(state);
    PendingSave save;
    save.shared_ = std::make_shared<PendingSave::Shared>();
    auto job = [this, write = std::move(write)] { write(std::as_const(copy_)); };
    save.shared_->result = std::async(std::launch::async, std::move(job)).share();
    return pending_ = save;
  }
  /// Becomes true when the save should end soon.
  std::shared_ptr<const std::atomic<bool>> hurries() const { return hurries_; }
  bool is_busy() const { return !pending_.ready(); }
  /// Returns when no save is being written. Throws its error if no code has waited for it. In a
  /// forked child a save of the other process is left to that one.
  void finish() {
    PendingSave last = std::exchange(pending_, {});
    if (!last.shared_) return;
    if (last.shared_->process.is_inherited()) {  // destroying it would wait for a missing thread
      static_cast<void>(new PendingSave(std::move(last)));
      return;
    }
    last.shared_->result.wait();
    if (!last.shared_->was_waited_for) last.wait();
  }

 private:
  void copy(const StateDict& state) {
    for (const auto& [name, t] : state) detail::check_storable(name, t);
    if (copy_.empty()) copy_ = detail::allocate_like(state);
    std::erase_if(copy_, [&](const auto& item) { return !state.count(item.first); });
    try {
      copy_each(state);
    } catch (...) {
      try {
        detail::wait_for_copies(state);  // devices may still be writing to the copy
      } catch (const c10::Error&) {
      }
      throw;
    }
    detail::wait_for_copies(state);
  }
  void copy_each(const StateDict& state) {
    for (const auto& [name, t] : state) {
      at::Tensor& to = copy_[name];
      if (!to.defined() || to.sizes() != t.sizes() || to.scalar_type() != t.scalar_type())
        to = at::empty(t.sizes(),
                       t.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
      detail::copy_bytes(to, t);
    }
  }

  StateDict copy_;
  std::shared_ptr<std::atomic<bool>> hurries_ = std::make_shared<std::atomic<bool>>(false);
  PendingSave pending_;
};

}  // namespace ikebana
