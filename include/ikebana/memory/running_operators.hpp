#pragma once
// Knows the operators that run on this thread, by LibTorch's record functions. Unlike an operator
// mode, these begin above autograd, so that an operator still runs while autograd saves its
// tensors.
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// RAII: while it exists, it knows the operators and the user scopes (RECORD_USER_SCOPE) that begin
/// on this thread. Costs some hundred nanoseconds per operator. Must be destroyed on the thread
/// that made it.
class RunningOperators {
 public:
  RunningOperators()
      : callback_(at::RecordFunctionCallback(&begin, &end)
                      .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})) {}
  RunningOperators(const RunningOperators&) = delete;
  RunningOperators& operator=(const RunningOperators&) = delete;

  /// Returns the operators that run now, such as `aten::linear > aten::addmm`; empty if none runs.
  static std::string operators() { return names_of(at::RecordScope::FUNCTION); }
  /// Returns the user scopes that are open now, such as `encoder > block0`.
  static std::string labels() { return names_of(at::RecordScope::USER_SCOPE); }

 private:
  using Running = std::vector<const at::RecordFunction*>;
  static Running& running();
  static std::string names_of(at::RecordScope scope);

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext*);

  bridge::ThreadCallback callback_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/running_operators.ipp>
#endif
