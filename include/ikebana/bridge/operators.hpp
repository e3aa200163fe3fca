#pragma once
// Intercepts operators, which LibTorch offers only to Python (as a TorchDispatchMode). While a
// dispatch key that LibTorch's C++ side does not use is included, a boxed kernel at that key is
// called and forwards to the innermost open scope.

#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <memory>
#include <vector>

namespace ikebana::bridge {

/// The operators that a scope intercepts: AllOperators are intercepted below autograd;
/// RandomOperators, which draw random numbers, above it, but inside composite ones such as
/// `aten::dropout`, and other operators then cost nothing.
///
/// `kind` is the kind of debug information under which the scope is stored. Newer LibTorch
/// identifies a kind by an address, which two libraries would not share. So these are two of
/// LibTorch's own kinds, used only in its tests, and the type of the object found there is checked.
struct AllOperators {
  static constexpr auto key = operator_key;
  static c10::DebugInfoKind kind() { return c10::DebugInfoKind::TEST_INFO; }
};
struct RandomOperators {
  static constexpr auto key = random_operator_key;
  static c10::DebugInfoKind kind() { return c10::DebugInfoKind::TEST_INFO_2; }
};

/// The open scope that the kernel of the key calls for each operator. Stored in LibTorch's
/// thread-local debug information, which a graph task propagates to the threads that run its
/// backward. The kernel may be another library's, so it calls the scope through its virtual
/// function.
template <class Which>
class OpenOperatorScopeV1 : public c10::DebugInfoBase {
 public:
  virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;

  static OpenOperatorScopeV1* innermost() noexcept {
    return dynamic_cast<OpenOperatorScopeV1*>(c10::ThreadLocalDebugInfo::get(Which::kind()));
  }
};

/// Returns true for operators that make a tensor without writing to it.
inline bool only_allocates(const c10::OperatorName& op) {
  return op.name.starts_with("aten::empty") || op.name.starts_with("aten::new_empty");
}

/// One call of an operator, before it reaches the kernel of its device.
class OperatorCall {
 public:
  /// `compute(op, stack)` computes it.
  using Compute = c10::function_ref<void(const c10::OperatorHandle&, torch::jit::Stack&)>;
  OperatorCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, Compute compute)
      : op_(op), stack_(stack), compute_(compute) {}

  /// Returns the name, such as `aten::mm`, and the overload, such as `out`. Its address is the same
  /// in every call of the operator.
  const c10::OperatorName& name() const { return op_.operator_name(); }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  /// Returns the operator, which can be called again later.
  const c10::OperatorHandle& op() const { return op_; }
  bool draws_random_numbers() const { return op_.hasTag(at::Tag::nondeterministic_seeded); }
  /// Returns true if this call of such an operator may draw from a default generator: it is given
  /// no other, and is no attention without dropout. Ask it before the call is computed.
  bool may_draw() const;

  /// Returns the arguments, which are valid until the call is computed or replaced.
  c10::ArrayRef<c10::IValue> arguments() const { return last(schema().arguments().size()); }
  /// Computes the call as without this scope; outer scopes see it.
  void compute() { compute_(op_, stack_); }
  /// Computes the operator with other arguments, which are the last on `stack`, and leaves its
  /// results there. The call itself is still to be computed or replaced.
  void compute_on(torch::jit::Stack& stack) const { compute_(op_, stack); }
  /// Clones a tensor. Outer scopes see that, and not what a mode calls otherwise.
  at::Tensor clone(const at::Tensor& t) const;
  /// Returns the results, which are valid once the call is computed.
  c10::ArrayRef<c10::IValue> results() const { return last(schema().returns().size()); }
  /// Returns `results` to the caller instead of computing the call.
  void replace(std::vector<c10::IValue> results);

 private:
  c10::ArrayRef<c10::IValue> last(std::size_t n) const;

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  Compute compute_;
};

/// Handles each operator that is called while an OperatorScope is open.
struct OperatorMode {
  virtual ~OperatorMode() = default;
  /// Must compute or replace the call, once. Operators called in here are not intercepted.
  virtual void call(OperatorCall& call) = 0;
};

namespace detail {

/// Computes an operator that no scope replaced, by the kernel of its device, or by the kernel of
/// WideProductsScope (wide_products.hpp) while that is open.
void call_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack);

template <class Which>
void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard exclude(Which::key);
  if (auto* scope = OpenOperatorScopeV1<Which>::innermost()) scope->call(op, *stack);
  else call_kernel(op, *stack);
}

template <class Which>
class OpenOperatorScope : public OpenOperatorScopeV1<Which> {
 public:
  explicit OpenOperatorScope(OperatorMode& mode) : mode_(&mode), outer_(this->innermost()) {}
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override {
    auto compute = [this](const c10::OperatorHandle& inner, torch::jit::Stack& inner_stack) {
      if (outer_) outer_->call(inner, inner_stack);
      else call_kernel(inner, inner_stack);
    };
    OperatorCall current(op, stack, compute);
    mode_->call(current);
  }

 private:
  OperatorMode* mode_;
  OpenOperatorScopeV1<Which>* outer_;
};

/// Returns true if the kernel that is registered already, possibly by another library, calls our
/// scopes.
template <class Which>
bool calls_scopes() {
  struct Probe : OperatorMode {
    bool called = false;
    void call(OperatorCall& call) override { called = true, call.compute(); }
  } probe;
  c10::DebugInfoGuard scope(Which::kind(), std::make_shared<OpenOperatorScope<Which>>(probe));
  c10::impl::IncludeDispatchKeyGuard include(Which::key);
  at::empty({0}, at::kMeta).bernoulli_(0.5);  // draws nothing
  return probe.called;
}

/// Keeps a registration until the process ends.
void keep(c10::RegistrationHandleRAII registration);
/// Makes the kernel that intercepts, and keeps the library that registers it loaded.
template <class Which>
c10::KernelFunction kept_kernel() {
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&intercept<Which>));
  return c10::KernelFunction::makeFromBoxedFunction<&intercept<Which>>();
}

bool intercept_all();

/// Intercepts also operators that a library has defined since the last call.
bool intercept_random();

}  // namespace detail

/// Returns false if another library uses the dispatch key. The first call registers the kernels
/// that intercept, which stay until the process ends. Operators reach them only while a scope is
/// open. For random operators the first call takes about eight milliseconds, later ones about two.
template <class Which = AllOperators>
bool operator_modes_available() {
  if constexpr (std::is_same_v<Which, RandomOperators>) return detail::intercept_random();
  else {
    static const bool available = detail::intercept_all();
    return available;
  }
}

/// Throws Error, which names the policy, if random operators cannot be intercepted.
void require_random_operators(const std::string& policy);

/// RAII: `mode` is called for every operator of this thread, and of the threads that run a backward
/// started inside the scope. Scopes nest; the innermost is called first. Costs two allocations, and
/// about a microsecond per operator that is intercepted. Must be destroyed on the thread that made
/// it; `mode` must outlive it. Requires operator_modes_available(); a scope of all operators checks
/// that, and throws ikebana::Error.
template <class Which = AllOperators>
class OperatorScope {
 public:
  explicit OperatorScope(OperatorMode& mode)
      : scope_(Which::kind(), open(mode)), include_(Which::key) {}
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  static std::shared_ptr<c10::DebugInfoBase> open(OperatorMode& mode) {
    if (std::is_same_v<Which, AllOperators> && !operator_modes_available<AllOperators>())
      throw Error(
          "OperatorScope: another library of this process uses the dispatch key by which operators "
          "are intercepted. Leave out what needs OperatorScope (Checkpoint<Selective>), or load "
          "only one version of ikebana.");
    return std::make_shared<detail::OpenOperatorScope<Which>>(mode);
  }

  c10::DebugInfoGuard scope_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/operators.ipp>
#endif
