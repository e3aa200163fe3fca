#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/posix/sigpipe.hpp>
#include <ikebana/shard/group/messages.hpp>
#include <mutex>
#include <thread>
#include <utility>

namespace ikebana::detail {

/// The thread that begins messages of Gloo. It runs the functions that it is given in their order,
/// in one thread of the process. Gloo locks a connection while it writes. If the writer is
/// preempted there, Gloo's own thread polls for the lock without pause until the writer runs again,
/// some milliseconds later. A thread that computes is preempted by each thread that its message
/// wakes; one that sleeps most of the time is not. With two ranks on two cores the polling took up
/// to a quarter of a step's CPU time.
class MessageThread {
 public:
  /// Returns the thread of this process. It starts at the first use and exists as long as the
  /// process, because others may end after it.
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

IKEBANA_INLINE std::string MessageTag::text(int tag, const std::vector<std::string>& units) {
  static constexpr std::array<const char*, first_of_units> others{
      "",
      "",
      "a sum",
      "the broadcast of rank 0's weights",
      "an exchange of the optimizer's update",
      "the broadcast of rank 0's buffers",
      "sparse gradients"};
  if (tag < first_of_units) return others[static_cast<std::size_t>(tag)];
  const auto unit = static_cast<std::size_t>((tag - first_of_units) / of_a_unit);
  return (tag == gather(unit) ? "the gather of " : "the reduction of ") +
         (unit < units.size() ? units[unit] : "bucket " + std::to_string(unit));
}

IKEBANA_INLINE ExchangeKind MessageTag::kind(int tag) {
  using enum ExchangeKind;
  static constexpr std::array others{AllGatherObject, AllGatherObject, AllReduce, Broadcast,
                                     AllToAll,        Broadcast,       AllGather};
  static constexpr std::array of_unit{AllGather, ReduceScatter, ReduceScatter,
                                      AllGather, SendReceive,   SendReceive};
  if (tag < first_of_units) return others[static_cast<std::size_t>(tag)];
  return of_unit[static_cast<std::size_t>((tag - first_of_units) % of_a_unit)];
}

/// Begins to send the tensors of `to[r]` to rank r, and to receive the tensors of `from[r]` in
/// place. All are contiguous; tensors without elements are left out. Messages between devices are
/// one group.
inline MessageWorks begin_messages(c10d::Backend& backend, int tag, const TensorsOfRanks& to,
                                   const TensorsOfRanks& from) {
  MessageWorks works;
  std::vector<at::Tensor> kept;
  const bool grouped = backend.supportsCoalescing();
  if (grouped) backend.startCoalescing();
  auto each = [&](const TensorsOfRanks& all, auto&& begin) {
    for (std::size_t r = 0; r < all.size(); ++r)
      for (const at::Tensor& t : all[r]) {
        if (t.numel() == 0) continue;
        std::vector<at::Tensor> list{t};
        begin(list, static_cast<int>(r));
        if (grouped) kept.push_back(t);
      }
  };
  each(from, [&](std::vector<at::Tensor>& list, int r) {
    auto work = backend.recv(list, r, tag);
    if (!grouped) works.add_reception(std::move(work), list[0]);
  });
  each(to, [&](std::vector<at::Tensor>& list, int r) {
    auto work = backend.send(list, r, tag);
    if (!grouped) works.add_sending(std::move(work), list[0]);
  });
  if (grouped) works.add(backend.endCoalescing(), kept);
  return works;
}

IKEBANA_INLINE c10::Device device_of(const TensorsOfRanks& to, const TensorsOfRanks& from) {
  for (const TensorsOfRanks* all : {&to, &from})
    for (const auto& list : *all)
      if (!list.empty()) return list[0].device();
  return at::kCPU;
}

IKEBANA_INLINE Transfer begin_swap(c10d::Backend& backend, int tag, TensorsOfRanks to,
                                   TensorsOfRanks from) {
  Transfer transfer = Transfer::prepared(tag);
  if (dynamic_cast<c10d::ProcessGroupGloo*>(&backend) == nullptr) {
    transfer.hold(begin_messages(backend, tag, to, from));
    return transfer;
  }
  auto held = c10::intrusive_ptr<c10d::Backend>::reclaim_copy(&backend);
  transfer.hold(MessageThread::of_process().run(
      [held = std::move(held), tag, to = std::move(to), from = std::move(from)] {
        return begin_messages(*held, tag, to, from);
      }));
  return transfer;
}

IKEBANA_INLINE Transfer begin_all_reduce(c10d::Backend& backend, int tag,
                                         const at::Tensor& values) {
  std::vector<at::Tensor> list{values};
  Transfer transfer = Transfer::prepared(tag);
  MessageWorks works;
  works.add(backend.allreduce(list), list);
  transfer.hold(std::move(works));
  return transfer;
}

IKEBANA_INLINE TreePlace::TreePlace(std::int64_t rank, std::int64_t size) {
  std::int64_t lowest = rank & -rank;
  if (rank != 0) from = static_cast<std::size_t>(rank - lowest);
  else
    for (lowest = 1; lowest < size;) lowest *= 2;
  for (std::int64_t bit = lowest / 2; bit > 0; bit /= 2)
    if (rank + bit < size) to.push_back(static_cast<std::size_t>(rank + bit));
}

IKEBANA_INLINE at::Tensor empty_on_host(std::int64_t length, const at::TensorOptions& options) {
  return at::detail::empty_cpu({length}, options);
}

}  // namespace ikebana::detail
