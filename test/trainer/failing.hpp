#pragma once
// Makes allocations fail on demand: operator new, and the memory of tensors on a CPU.
#include "test.hpp"

#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

namespace test {

/// The number of this thread's allocation that fails, counted down; 0: none.
inline thread_local int countdown = 0;

/// Returns whether a return address is in a function of LibTorch that frees the nodes of a graph.
/// Looking one up takes a third of a millisecond, so it is done once.
inline bool frees_nodes(void* frame) {
  static std::mutex mutex;
  static std::unordered_map<void*, bool> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(frame, false);
  Dl_info info;
  if (!is_new || dladdr(frame, &info) == 0 || info.dli_sname == nullptr) return at->second;
  const std::string name = info.dli_sname;
  return at->second = contains(name, "autograd10deleteNode") ||
                      contains(name, "Node17release_resources") || contains(name, "10TensorImplD");
}
/// LibTorch frees the nodes of a graph with the help of a list, in a destructor: if that allocation
/// fails, the process ends, whatever this library does. Which function does it depends on LibTorch.
inline bool frees_a_graph() {
  void* frames[24];
  const int depth = backtrace(frames, 24);
  return std::any_of(frames, frames + depth, frees_nodes);
}
/// Counts an allocation. Returns true for the one that is to fail.
inline bool fails() {
  if (countdown == 0 || --countdown != 0) return false;
  if (!frees_a_graph()) return true;
  countdown = 1;  // the next one fails instead
  return false;
}

/// The memory of tensors, in front of LibTorch's allocator.
class FailingAllocator : public c10::Allocator {
 public:
  FailingAllocator() { c10::SetAllocator(c10::kCPU, this, /*priority=*/200); }
  ~FailingAllocator() override { c10::SetAllocator(c10::kCPU, inner_, /*priority=*/200); }
  c10::DataPtr allocate(std::size_t n) override {
    TORCH_CHECK(!fails(), "DefaultCPUAllocator: can't allocate memory: ", n, " bytes");
    return inner_->allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    inner_->copy_data(to, from, n);
  }

 private:
  c10::Allocator* inner_ = c10::GetAllocator(c10::kCPU);
};

/// Calls `f` on a thread of its own. An exception in autograd's engine leaves the engine in the
/// middle of a backward pass of that thread; after 60 of them it runs the thread's passes on
/// others.
template <class F>
void on_own_thread(const F& f) {
  std::thread(f).join();
}

/// Calls `f` on a thread of its own, to which the allocation that is to fail is counted on. Throws
/// what `f` throws.
template <class F>
void counting_on_own_thread(const F& f) {
  std::exception_ptr error;
  int left = std::exchange(countdown, 0);
  on_own_thread([&] {
    countdown = left;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    left = std::exchange(countdown, 0);
  });
  countdown = left;
  if (error) std::rethrow_exception(error);
}

/// Calls `f` with the first allocation failing, then the one `stride` later, until none fails.
/// Returns how many failed. `after(error)` is called after each call; `error` is null for one that
/// did not throw.
template <class F, class After>
int fail_each(const F& f, const After& after, int stride = is_thorough() ? 1 : 4) {
  for (int failing = 1, calls = 0;; failing += stride, ++calls) {
    std::exception_ptr error;
    countdown = failing;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    const bool reached = std::exchange(countdown, 0) == 0;
    CHECK((reached || error == nullptr));
    after(error);
    if (!reached) return calls;
  }
}

}  // namespace test
