#pragma once
#include <exception>
#include <future>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/copy.hpp>

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
