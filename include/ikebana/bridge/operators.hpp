#pragma once
// Intercepts every operator below autograd, which LibTorch offers only to Python (as a
// TorchDispatchMode). While a dispatch key that LibTorch's C++ side does not use is included, a
// boxed fallback at that key is called for every operator and forwards to the innermost open scope.

#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// The open scope that the fallback calls for each operator. Stored in LibTorch's thread-local
/// debug information, which a graph task propagates to the threads that run its backward. The
/// fallback may be another library's, so it calls the scope through its virtual function.
class OpenOperatorScopeV1 : public c10::DebugInfoBase {
 public:
  virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;

  /// The kind of debug information under which the scope is stored. Newer LibTorch identifies a
  /// kind by an address, which two libraries would not share; so this is one of LibTorch's own
  /// kinds, used only in its tests, and the type of what is found there is checked.
  static c10::DebugInfoKind kind() { return c10::DebugInfoKind::TEST_INFO; }
  static OpenOperatorScopeV1* innermost() noexcept {
    return dynamic_cast<OpenOperatorScopeV1*>(c10::ThreadLocalDebugInfo::get(kind()));
  }
};

/// One call of an operator, before it reaches the kernel of its device.
class OperatorCall {
 public:
  OperatorCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, OpenOperatorScopeV1* outer)
      : op_(op), stack_(stack), outer_(outer) {}

  /// The name, such as `aten::mm`, and the overload, such as `out`. Its address is the same in
  /// every call of the operator.
  const c10::OperatorName& name() const { return op_.operator_name(); }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  bool draws_random_numbers() const { return op_.hasTag(at::Tag::nondeterministic_seeded); }

  /// Valid until the call is computed or replaced.
  c10::ArrayRef<c10::IValue> arguments() const { return last(schema().arguments().size()); }
  /// Computes the call as without this scope; outer scopes see it.
  void compute() {
    if (outer_) outer_->call(op_, stack_);
    else op_.callBoxed(stack_);
  }
  /// Valid once the call is computed.
  c10::ArrayRef<c10::IValue> results() const { return last(schema().returns().size()); }
  /// Returns `results` to the caller instead of computing the call.
  void replace(std::vector<c10::IValue> results) {
    torch::jit::drop(stack_, schema().arguments().size());
    for (auto& result : results) stack_.push_back(std::move(result));
  }

 private:
  c10::ArrayRef<c10::IValue> last(std::size_t n) const {
    return c10::ArrayRef<c10::IValue>(stack_).slice(stack_.size() - n);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  OpenOperatorScopeV1* outer_;
};

/// What to do with each operator that is called while an OperatorScope is open.
struct OperatorMode {
  virtual ~OperatorMode() = default;
  /// Must compute or replace the call, once. Operators called in here are not intercepted.
  virtual void call(OperatorCall& call) = 0;
};

namespace detail {

inline void operator_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet,
                              torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard exclude(operator_key);
  if (auto* scope = OpenOperatorScopeV1::innermost()) scope->call(op, *stack);
  else op.callBoxed(stack);
}

class OpenOperatorScope : public OpenOperatorScopeV1 {
 public:
  explicit OpenOperatorScope(OperatorMode& mode) : mode_(&mode), outer_(innermost()) {}
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override {
    OperatorCall current(op, stack, outer_);
    mode_->call(current);
  }

 private:
  OperatorMode* mode_;
  OpenOperatorScopeV1* outer_;
};

/// True if the fallback that is registered already, possibly by another library, calls our scopes.
inline bool fallback_calls_scopes() {
  struct Probe : OperatorMode {
    bool called = false;
    void call(OperatorCall& call) override { called = true, call.compute(); }
  } probe;
  c10::DebugInfoGuard scope(OpenOperatorScopeV1::kind(),
                            std::make_shared<OpenOperatorScope>(probe));
  c10::impl::IncludeDispatchKeyGuard include(operator_key);
  at::empty({0});
  return probe.called;
}

inline bool register_operator_fallback() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(operator_key)) return fallback_calls_scopes();
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&operator_fallback));
  static auto& never_unregistered = *new c10::RegistrationHandleRAII(dispatcher.registerFallback(
      operator_key, c10::KernelFunction::makeFromBoxedFunction<&operator_fallback>(), "ikebana"));
  (void)never_unregistered;
  return true;
}

}  // namespace detail

/// False if another library uses the dispatch key. The first call registers the fallback, which
/// stays until the process ends; operators reach it only while a scope is open.
inline bool operator_modes_available() {
  static const bool available = detail::register_operator_fallback();
  return available;
}

/// RAII: `mode` is called for every operator of this thread below autograd, and of the threads that
/// run a backward started inside the scope. Scopes nest; the innermost is called first. Costs an
/// allocation, and about a microsecond per operator. Must be destroyed on the thread that made it;
/// `mode` must outlive it. Throws ikebana::Error if operator_modes_available() is false.
class OperatorScope {
 public:
  explicit OperatorScope(OperatorMode& mode)
      : scope_(OpenOperatorScopeV1::kind(), open(mode)), include_(operator_key) {}
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  static std::shared_ptr<c10::DebugInfoBase> open(OperatorMode& mode) {
    if (!operator_modes_available())
      throw Error(
          "OperatorScope: another library of this process uses the dispatch key by which operators "
          "are intercepted. Leave out what needs OperatorScope (Checkpoint<Selective>), or load "
          "only one version of ikebana.");
    return std::make_shared<detail::OpenOperatorScope>(mode);
  }

  c10::DebugInfoGuard scope_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

}  // namespace ikebana::bridge
