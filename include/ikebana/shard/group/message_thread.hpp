#pragma once
// The thread that begins messages of Gloo.
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <ikebana/posix/process.hpp>
#include <mutex>

namespace ikebana::detail {

/// Does what it is given, in this order, in one thread of the process. Gloo locks a connection
/// while it writes. If the writer is preempted there, Gloo's own thread polls for the lock without
/// pause until the writer runs again, some milliseconds later. A thread that computes is preempted
/// by each thread that its message wakes; one that sleeps most of the time is not. With two ranks
/// on two cores the polling took up to a quarter of a step's CPU time.
class MessageThread {
 public:
  /// Starts at the first use; lives as long as the process, since others may end after it.
  static MessageThread& of_process();
  /// `f` must not wait for messages.
  template <class F>
  std::future<std::invoke_result_t<F>> run(F f) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::move(f));
    auto result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back([task = std::move(task)] { (*task)(); });
    }
    has_tasks_.notify_one();
    return result;
  }

 private:
  MessageThread() = default;
  void start();
  std::function<void()> next();

  const OwnProcess process_{};
  std::mutex mutex_;
  std::condition_variable has_tasks_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/message_thread.ipp>
#endif
