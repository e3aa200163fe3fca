#pragma once
// Registers custom operators in LibTorch's dispatcher: an OperatorScope then sees one operator
// instead of the many small ones that it consists of, as with LibTorch's own fused kernels.

#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/posix/library.hpp>
#include <optional>

namespace ikebana::bridge {

/// Every operator that this library may register, so that a rule can name one before its first
/// call.
inline constexpr const char* custom_operators[] = {
    "ikebana::composed_attention", "ikebana::chunked_attention",    "ikebana::bn_relu",
    "ikebana::bn_relu_backward",   "ikebana::linear_cross_entropy",
};

namespace detail {

template <class Signature>
using CustomOperator = std::optional<c10::TypedOperatorHandle<Signature>>;

/// Registers `kernel` below autograd for all devices, until the process ends. If another library
/// has registered the name already, returns that operator, or nothing if its schema differs.
template <class Signature>
CustomOperator<Signature> find_or_register(const char* schema, Signature* kernel) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto parsed = torch::schema(schema);
  const c10::OperatorName name = parsed.operator_name();
  auto found = dispatcher.findSchema(name);
  if (!found) {
    ikebana::detail::keep_loaded(reinterpret_cast<const void*>(kernel));
    static auto& never_unregistered =
        *new torch::Library(torch::Library::FRAGMENT, "ikebana", std::nullopt, __FILE__, __LINE__);
    never_unregistered.def(schema);
    never_unregistered.impl(name.name.c_str(),
                            torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
    found = dispatcher.findSchema(name);
  }
  if (found->schema() != parsed) return {};
  return found->template typed<Signature>();
}

}  // namespace detail

/// Calls `kernel` as the operator of `schema` while an OperatorScope is open on this thread, and as
/// a plain function otherwise, without any cost. List the operator in custom_operators. Call it
/// with gradients off: it has no derivative.
template <auto kernel, class... Arguments>
auto call_as_operator(const char* schema, const Arguments&... arguments) {
  if (!c10::impl::tls_is_dispatch_key_included(operator_key)) return kernel(arguments...);
  static const auto registered = detail::find_or_register(schema, kernel);
  return registered ? registered->call(arguments...) : kernel(arguments...);
}

}  // namespace ikebana::bridge

namespace ikebana::detail {

/// Calls `kernel`, which computes on the host, as an operator while a step is recorded, so that a
/// replay calls it again.
template <auto kernel, class... Arguments>
auto recorded_call(const char* schema, const Arguments&... arguments) {
  return recording() ? bridge::call_as_operator<kernel>(schema, arguments...)
                     : kernel(arguments...);
}

}  // namespace ikebana::detail
