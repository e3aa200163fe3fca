#pragma once
#include <atomic>
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/sigpipe.hpp>
#include <ikebana/shard/group/message_thread.hpp>
#include <thread>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE MessageThread& MessageThread::of_process() {
  static std::atomic<MessageThread*> present = nullptr;
  MessageThread* one = present.load();
  while (one == nullptr || one->process_.is_inherited()) {  // a fork has no threads
    auto* made = new MessageThread;
    if (present.compare_exchange_strong(one, made)) made->start(), one = made;
    else delete made;
  }
  return *one;
}

IKEBANA_INLINE void MessageThread::start() {
  const SigpipeBlock block;  // the thread inherits it
  std::thread([this] {
    for (;;) next()();
  }).detach();
}

IKEBANA_INLINE std::function<void()> MessageThread::next() {
  std::unique_lock lock(mutex_);
  has_tasks_.wait(lock, [&] { return !tasks_.empty(); });
  auto task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

}  // namespace ikebana::detail
