#pragma once
// Registers a callback of LibTorch's record functions for a thread, or throws without a trace.
#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// Returns a callback that is given each operator's arguments before it runs, and its results
/// afterwards.
inline at::RecordFunctionCallback operator_callback(
    at::RecordFunctionCallback::StartCallback before,
    at::RecordFunctionCallback::EndCallback after) {
  at::RecordFunctionCallback callback(before, after);
  callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION});
  return callback;
}

/// RAII: LibTorch calls the callback for the functions that begin on this thread. Must be destroyed
/// on the thread that made it. LibTorch adds a callback to its list before it allocates what it
/// calls by. If that throws, this takes it from the list again: it would remain there, and each
/// operator, of an update too, would allocate for it.
class ThreadCallback {
 public:
  explicit ThreadCallback(const at::RecordFunctionCallback& callback);
  ~ThreadCallback();
  ThreadCallback(const ThreadCallback&) = delete;
  ThreadCallback& operator=(const ThreadCallback&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/thread_callback.ipp>
#endif
