#pragma once
// Operators of our own in LibTorch's dispatcher: whoever looks at operators sees one where there
// are many small ones inside, as with LibTorch's own kernels.

#include <ikebana/bridge/operators.hpp>
#include <optional>

namespace ikebana::bridge {

/// Every operator that this library may add, so that one can be named before it was called.
inline constexpr const char* own_operators[] = {
    "ikebana::composed_attention",
    "ikebana::chunked_attention",
};

namespace detail {

template <class Signature>
using OwnOperator = std::optional<c10::TypedOperatorHandle<Signature>>;

/// Registers `kernel` below autograd for all devices, for the rest of the process. One that another
/// library has registered is taken as it is, and nothing where its schema is another.
template <class Signature>
OwnOperator<Signature> own_operator(const char* schema, Signature* kernel) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto parsed = torch::schema(schema);
  const c10::OperatorName name = parsed.operator_name();
  auto found = dispatcher.findSchema(name);
  if (!found) {
    keep_loaded(reinterpret_cast<const void*>(kernel));
    static auto& never_taken_back =
        *new torch::Library(torch::Library::FRAGMENT, "ikebana", std::nullopt, __FILE__, __LINE__);
    never_taken_back.def(schema);
    never_taken_back.impl(name.name.c_str(),
                          torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
    found = dispatcher.findSchema(name);
  }
  if (found->schema() != parsed) return {};
  return found->template typed<Signature>();
}

}  // namespace detail

/// Calls `kernel` as the operator of `schema` while an OperatorScope is open in this thread, and as
/// the function that it is otherwise, at no cost. Name the operator in own_operators. Call it with
/// gradients off: it has no derivative.
template <auto kernel, class... Arguments>
auto as_operator(const char* schema, const Arguments&... arguments) {
  if (!c10::impl::tls_is_dispatch_key_included(operator_key)) return kernel(arguments...);
  static const auto operation = detail::own_operator(schema, kernel);
  return operation ? operation->call(arguments...) : kernel(arguments...);
}

}  // namespace ikebana::bridge
