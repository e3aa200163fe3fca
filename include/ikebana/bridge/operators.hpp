#pragma once
// Sees and replaces every operator below autograd: what LibTorch offers to Python as a dispatch
// mode. A boxed fallback on a dispatch key that LibTorch uses for nothing else is called for every
// operator while the key is switched on; it asks the innermost open scope.

#include <ikebana/posix/library.hpp>
#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// What the operators of a scope find. LibTorch's thread-local debug information holds it, which a
/// graph task carries to the threads that run its backward. Whichever library of the process made
/// the fallback, it calls this through its virtual function.
class OpenOperatorScopeV1 : public c10::DebugInfoBase {
 public:
  virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;

  /// The place in LibTorch's list. Newer versions know a place by an address, which two libraries
  /// do not share; so it is one of LibTorch's own, which only its own tests use, and what is found
  /// there is looked at before it is believed.
  static c10::DebugInfoKind kind() { return c10::DebugInfoKind::TEST_INFO; }
  static OpenOperatorScopeV1* innermost() noexcept {
    return dynamic_cast<OpenOperatorScopeV1*>(c10::ThreadLocalDebugInfo::get(kind()));
  }
};

/// One call of an operator, on its way to the device.
class OperatorCall {
 public:
  OperatorCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, OpenOperatorScopeV1* outer)
      : op_(op), stack_(stack), outer_(outer) {}

  /// `aten::mm`, and the overload, such as `out`. Its address is the same in every call.
  const c10::OperatorName& name() const { return op_.operator_name(); }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  bool draws_random_numbers() const { return op_.hasTag(at::Tag::nondeterministic_seeded); }

  /// Until it is computed or replaced.
  c10::ArrayRef<c10::IValue> arguments() const { return last(schema().arguments().size()); }
  /// As if it had been called without the scope; outer scopes see it.
  void compute() {
    if (outer_) outer_->call(op_, stack_);
    else op_.callBoxed(stack_);
  }
  /// Once it was computed.
  c10::ArrayRef<c10::IValue> results() const { return last(schema().returns().size()); }
  /// Gives results without computing it.
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
  /// Computes the call or replaces it, once. Operators called in here are not seen.
  virtual void call(OperatorCall& call) = 0;
};

namespace detail {

inline void operator_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet,
                              torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard once(operator_key);
  if (auto* scope = OpenOperatorScopeV1::innermost()) scope->call(op, *stack);
  else op.callBoxed(stack);
}

class OpenOperatorScope : public OpenOperatorScopeV1 {
 public:
  explicit OpenOperatorScope(OperatorMode& mode) : mode_(&mode), outer_(innermost()) {}
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override {
    OperatorCall one(op, stack, outer_);
    mode_->call(one);
  }

 private:
  OperatorMode* mode_;
  OpenOperatorScopeV1* outer_;
};

/// Whether the fallback that is there, whoever made it, asks scopes like ours.
inline bool operators_are_seen() {
  struct Seen : OperatorMode {
    bool yes = false;
    void call(OperatorCall& call) override { yes = true, call.compute(); }
  } seen;
  c10::DebugInfoGuard scope(OpenOperatorScopeV1::kind(), std::make_shared<OpenOperatorScope>(seen));
  c10::impl::IncludeDispatchKeyGuard on(operator_key);
  at::empty({0});
  return seen.yes;
}

inline bool see_operators() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(operator_key)) return operators_are_seen();
  keep_loaded(reinterpret_cast<const void*>(&operator_fallback));
  static auto& never_taken_back = *new c10::RegistrationHandleRAII(dispatcher.registerFallback(
      operator_key, c10::KernelFunction::makeFromBoxedFunction<&operator_fallback>(), "ikebana"));
  (void)never_taken_back;
  return true;
}

}  // namespace detail

/// False where somebody else has taken the key. Registers the fallback at its first call, for the
/// rest of the process; while no scope is open, operators do not pass it.
inline bool operator_modes_available() {
  static const bool yes = detail::see_operators();
  return yes;
}

/// While alive, `mode` is asked for every operator of this thread below autograd, and of the
/// threads that run a backward begun in here. Scopes nest, the innermost is asked first. Costs an
/// allocation, and about a microsecond an operator. Belongs to the thread that made it; `mode` must
/// outlive it. Throws ikebana::Error where operator_modes_available() is false.
class OperatorScope {
 public:
  explicit OperatorScope(OperatorMode& mode)
      : scope_(OpenOperatorScopeV1::kind(), open(mode)), on_(operator_key) {}
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  static std::shared_ptr<c10::DebugInfoBase> open(OperatorMode& mode) {
    if (!operator_modes_available())
      throw Error(
          "OperatorScope: another library of this process has taken the dispatch key by which "
          "operators are seen. Leave out what needs it, or load one version of ikebana.");
    return std::make_shared<detail::OpenOperatorScope>(mode);
  }

  c10::DebugInfoGuard scope_;
  c10::impl::IncludeDispatchKeyGuard on_;
};

}  // namespace ikebana::bridge
