#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <future>
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/state/async_save.hpp>
#include <set>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ikebana::detail {

/// Returns a device on which the state has tensors, or the CPU.
inline c10::Device device_of(const StateDict& state) {
  for (const auto& [name, t] : state)
    if (bridge::has_copy_streams(t.device())) return t.device();
  return at::kCPU;
}

/// Allocates memory on the host. A device copies to pinned memory without the host's help.
inline std::shared_ptr<void> allocate_block(std::size_t size, bool pinned) {
  if (pinned) try {
      const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
      const at::Tensor bytes = at::empty({static_cast<std::int64_t>(size)}, options);
      return {bytes.mutable_data_ptr(), [bytes](void*) {}};
    } catch (const c10::Error&) {  // less memory can be pinned
    }
  return allocate_large_pages(size);
}

/// Makes uninitialised tensors on the CPU with the names, shapes and dtypes of `state`, in one
/// block of memory: pinned if the state has tensors on a device, else in large pages if the system
/// has them. With small pages, the first copy waits longer for page faults than for the bytes.
inline StateDict allocate_like(const StateDict& state) {
  constexpr std::size_t alignment = 64;
  auto padded_bytes = [](const at::Tensor& t) {
    return (t.nbytes() + alignment - 1) / alignment * alignment;
  };
  std::size_t size = large_page;
  for (const auto& [name, t] : state) size += padded_bytes(t);
  const std::shared_ptr<void> block = allocate_block(size, !device_of(state).is_cpu());
  StateDict all;
  auto next = static_cast<char*>(block.get());
  for (const auto& [name, t] : state) {
    const auto options = at::TensorOptions().dtype(t.scalar_type());
    all[name] = at::from_blob(next, t.sizes(), [block](void*) {}, options);
    next += padded_bytes(t);
  }
  return all;
}

/// Copies with stores that bypass the caches, so that the target is not read before it is written.
inline void copy_streaming(char* to, const char* from, std::size_t n) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;  // bytes of a cache line
  std::size_t done = std::min(n, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from, done);
  for (; n - done >= line; done += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + done);
    auto* target = reinterpret_cast<__m128i*>(to + done);
    const __m128i values[] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1),
                              _mm_loadu_si128(source + 2), _mm_loadu_si128(source + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, values[i]);
  }
  _mm_sfence();  // another thread will read the copy
  to += done, from += done, n -= done;
#endif
  std::memcpy(to, from, n);
}

IKEBANA_INLINE void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::int64_t grain = 1 << 20;  // bytes; another thread does not pay for fewer
  const bool as_it_lies =
      from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg();
  if (!as_it_lies || from.nbytes() == 0) {
    to.copy_(from, /*non_blocking=*/!from.is_cpu());
    return;
  }
  auto target = static_cast<char*>(to.mutable_data_ptr());
  auto source = static_cast<const char*>(from.const_data_ptr());
  const auto size = static_cast<std::int64_t>(from.nbytes());
  in_parallel(target, size, grain, [=](std::int64_t begin, std::int64_t end) noexcept {
    copy_streaming(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

/// Waits until all copies from the devices of a state are complete.
inline void wait_for_copies(const StateDict& state) {
  std::set<c10::DeviceIndex> waited_for;  // a process has devices of one type besides the CPU
  for (const auto& [name, t] : state) {
    const c10::Device device = t.device();
    if (!bridge::has_copy_streams(device) || !waited_for.insert(device.index()).second) continue;
    c10::Event copied(device.type());
    copied.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    copied.synchronize();
  }
}

}  // namespace ikebana::detail

namespace ikebana {

struct PendingSave::Shared {
  std::shared_future<void> result;
  std::atomic<bool> was_waited_for = false;
  detail::OwnProcess process;
};

IKEBANA_INLINE void PendingSave::wait() const {
  if (!shared_) return;
  if (shared_->process.is_inherited())
    throw Error(
        "save: the process that this one was forked from writes this state. Wait for it there.");
  shared_->was_waited_for = true;
  shared_->result.get();
}

IKEBANA_INLINE bool PendingSave::ready() const {
  return !shared_ || shared_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

IKEBANA_INLINE AsyncSaver::~AsyncSaver() {
  if (std::uncaught_exceptions() > 0) *hurries_ = true;
  try {
    finish();
  } catch (const std::exception& error) {
    TORCH_WARN("An asynchronous save failed, and no code waited for it: ", error.what());
  }
}

IKEBANA_INLINE void AsyncSaver::finish() {
  PendingSave last = std::exchange(pending_, {});
  if (!last.shared_) return;
  if (last.shared_->process.is_inherited()) {  // destroying it would wait for a missing thread
    static_cast<void>(new PendingSave(std::move(last)));
    return;
  }
  last.shared_->result.wait();
  if (!last.shared_->was_waited_for) last.wait();
}

IKEBANA_INLINE PendingSave AsyncSaver::begin(const StateDict& state,
                                             std::function<void(const StateDict&)> write) {
  finish();
  copy(state);
  PendingSave save;
  save.shared_ = detail::make_shared_apart<PendingSave::Shared>();
  auto job = [this, write = std::move(write)] { write(std::as_const(copy_)); };
  save.shared_->result = std::async(std::launch::async, std::move(job)).share();
  return pending_ = save;
}

IKEBANA_INLINE void AsyncSaver::copy(const StateDict& state) {
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

IKEBANA_INLINE void AsyncSaver::copy_each(const StateDict& state) {
  for (const auto& [name, t] : state) {
    at::Tensor& to = copy_[name];
    if (!to.defined() || to.sizes() != t.sizes() || to.scalar_type() != t.scalar_type())
      to = at::empty(t.sizes(),
                     t.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
    detail::copy_bytes(to, t);
  }
}

}  // namespace ikebana
