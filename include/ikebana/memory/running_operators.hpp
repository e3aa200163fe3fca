#pragma once
// Which operators run on this thread, by LibTorch's record functions: unlike an operator mode they
// begin above autograd, so that what an operator saves is saved while it runs.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// RAII: while it exists, the operators and the user scopes (RECORD_USER_SCOPE) that begin on this
/// thread are known. Costs some hundred nanoseconds per operator. Must be destroyed on the thread
/// that made it.
class RunningOperators {
 public:
  RunningOperators()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&begin, &end)
                .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}))) {}
  ~RunningOperators() { at::removeCallback(handle_); }
  RunningOperators(const RunningOperators&) = delete;
  RunningOperators& operator=(const RunningOperators&) = delete;

  /// Those that run now, such as `aten::linear > aten::addmm`; empty where none does.
  static std::string operators() { return names_of(at::RecordScope::FUNCTION); }
  /// The user scopes that are open now, such as `encoder > block0`.
  static std::string labels() { return names_of(at::RecordScope::USER_SCOPE); }

 private:
  using Running = std::vector<const at::RecordFunction*>;
  static Running& running() {
    static thread_local Running all;
    return all;
  }
  static std::string names_of(at::RecordScope scope) {
    std::string text;
    for (const at::RecordFunction* function : running())
      if (function->scope() == scope)
        text += (text.empty() ? "" : " > ") + std::string(function->name());
    return text;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto& all = running();
    if (all.empty() || all.back() != &function) all.push_back(&function);  // of two such objects
    return nullptr;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    auto& all = running();
    all.erase(std::remove(all.begin(), all.end(), &function), all.end());
  }

  at::CallbackHandle handle_;
};

}  // namespace ikebana::detail
