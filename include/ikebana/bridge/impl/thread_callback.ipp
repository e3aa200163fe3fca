#pragma once
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE ThreadCallback::ThreadCallback(const at::RecordFunctionCallback& callback) {
  const auto& registered = at::get_record_function_tls_().sorted_tls_callbacks_;
  const std::size_t before = registered.size();
  try {
    handle_ = at::addThreadLocalCallback(callback);
  } catch (...) {
    if (registered.size() > before) at::removeCallback(registered.back().handle_);
    throw;
  }
}

IKEBANA_INLINE ThreadCallback::~ThreadCallback() {
  try {
    at::removeCallback(handle_);
  } catch (const std::exception&) {  // Memory has ended, but the callback is off the list already.
  }
}

}  // namespace ikebana::bridge
