#pragma once
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <mutex>
#include <utility>

namespace ikebana::bridge {

IKEBANA_INLINE void OperatorCall::replace(std::vector<c10::IValue> results) {
  torch::jit::drop(stack_, schema().arguments().size());
  for (auto& result : results) stack_.push_back(std::move(result));
}

IKEBANA_INLINE at::Tensor OperatorCall::clone(const at::Tensor& t) const {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  torch::jit::Stack stack{t, c10::IValue()};
  compute_(op, stack);
  return stack.back().toTensor();
}

IKEBANA_INLINE bool OperatorCall::may_draw() const {
  if (!draws_random_numbers()) return false;
  for (std::size_t i = 0; i < arguments().size(); ++i) {
    const c10::IValue& value = arguments()[i];
    if (value.isDouble() && value.toDouble() == 0 && schema().arguments()[i].name() == "dropout_p")
      return false;
    if (!value.isGenerator() || !value.toGenerator().defined()) continue;
    const at::Generator& generator = value.toGenerator();
    if (generator != at::globalContext().defaultGenerator(generator.device())) return false;
  }
  return true;
}

IKEBANA_INLINE c10::ArrayRef<c10::IValue> OperatorCall::last(std::size_t n) const {
  return c10::ArrayRef<c10::IValue>(stack_).slice(stack_.size() - n);
}

IKEBANA_INLINE void require_random_operators(const std::string& policy) {
  if (!operator_modes_available<RandomOperators>())
    throw Error(policy +
                ": another library of this process uses the dispatch key by which operators that "
                "draw random numbers are intercepted. Load only one version of ikebana.");
}

}  // namespace ikebana::bridge

namespace ikebana::bridge::detail {

IKEBANA_INLINE void call_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const bool may_be_wide = c10::impl::tls_is_dispatch_key_included(products_key) &&
                           op.hasKernelForDispatchKey(products_key);
  if (may_be_wide) op.redispatchBoxed(c10::DispatchKeySet(products_key), &stack);
  else op.callBoxed(stack);
}

IKEBANA_INLINE void keep(c10::RegistrationHandleRAII registration) {
  (void)new c10::RegistrationHandleRAII(std::move(registration));
}

IKEBANA_INLINE bool intercept_all() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(operator_key))
    return calls_scopes<AllOperators>();
  keep(dispatcher.registerFallback(operator_key, kept_kernel<AllOperators>(), "ikebana"));
  return true;
}

/// Returns true for an operator that draws, is not composed of others, and is not intercepted yet.
inline bool draws_itself(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(random_operator_key);
}

IKEBANA_INLINE bool intercept_random() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  auto& dispatcher = c10::Dispatcher::singleton();
  static const bool is_ours = !dispatcher.hasBackendFallbackForDispatchKey(random_operator_key);
  static std::size_t known = 0;
  if (is_ours && known == 0)
    keep(dispatcher.registerFallback(random_operator_key, c10::KernelFunction::makeFallthrough(),
                                     "ikebana"));
  const std::vector<c10::OperatorName> names = dispatcher.getAllOpNames();
  static const c10::KernelFunction kernel = kept_kernel<RandomOperators>();
  if (std::exchange(known, names.size()) != names.size())
    for (const c10::OperatorName& name : names)
      if (const auto op = dispatcher.findSchema(name); op && draws_itself(*op))
        keep(dispatcher.registerImpl(name, random_operator_key, kernel, std::nullopt, nullptr,
                                     "ikebana"));
  static const bool works = is_ours || calls_scopes<RandomOperators>();
  return works;
}

}  // namespace ikebana::bridge::detail
