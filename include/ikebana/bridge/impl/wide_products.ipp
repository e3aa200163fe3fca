#pragma once
#include <algorithm>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/posix/processor.hpp>

namespace ikebana::bridge::detail {

/// Attention takes an FP32 mask, and keeps the sums of its softmax in FP32.
inline bool is_attention(const c10::OperatorHandle& op) {
  return op.operator_name().name.starts_with("aten::_scaled_dot_product");
}

/// Returns true for LSTMs of any dtypes. Each of their layers is one operator if their input is
/// FP32.
inline bool is_lstm(const c10::OperatorHandle& op) {
  return op.operator_name().name == "aten::lstm";
}

inline c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                               const torch::jit::Stack& stack) {
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().arguments().size());
}

/// Returns the dtype of 16 bits in which a call on the CPU was requested; no value if it has
/// another dtype, or several, which LibTorch refuses.
inline std::optional<at::ScalarType> half_type(const c10::OperatorHandle& op,
                                               c10::ArrayRef<c10::IValue> arguments) {
  std::optional<at::ScalarType> half;
  bool is_mixed = false;
  const bool takes_fp32 = is_attention(op) || is_lstm(op);
  ikebana::detail::visit_all(arguments, [&](const at::Tensor& t) {
    const at::ScalarType type = t.scalar_type();
    if (!t.is_cpu() || t.layout() != at::kStrided) is_mixed = true;
    if (!c10::isFloatingType(type)) return;
    if (!c10::isReducedFloatingType(type)) is_mixed = is_mixed || !takes_fp32;
    else if (!half) half = type;
    else is_mixed = is_mixed || *half != type;
  });
  return is_mixed ? std::nullopt : half;
}

/// Returns true if autograd is to record the call.
inline bool needs_gradient(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool needs = false;
  if (at::GradMode::is_enabled())
    ikebana::detail::visit_all(arguments_of(op, stack),
                               [&](const at::Tensor& t) { needs = needs || t.requires_grad(); });
  return needs;
}

/// Computes a call of 16-bit tensors in FP32 and rounds its results. Arguments to which it writes
/// are written in 16 bits.
inline void compute_wide(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                         at::ScalarType type) {
  const c10::impl::ExcludeDispatchKeyGuard as_a_kernel(
      c10::DispatchKeySet({products_key, operator_key}) | c10::autocast_dispatch_keyset);
  const auto& schema = op.schema();
  const std::vector<c10::IValue> given = arguments_of(op, stack).vec();
  torch::jit::drop(stack, given.size());
  torch::jit::Stack wide;
  wide.reserve(std::max(given.size(), schema.returns().size()));
  for (std::size_t i = 0; i < given.size(); ++i)
    wide.push_back(ikebana::detail::with_tensors(given[i], [&](const at::Tensor& t) {
      if (t.scalar_type() != type) return t;
      return schema.arguments()[i].is_out() ? at::empty_like(t, t.options().dtype(at::kFloat))
                                            : t.to(at::kFloat);
    }));
  op.callBoxed(wide);
  wide_calls.fetch_add(1, std::memory_order_relaxed);
  std::size_t written = 0;  // arguments that the operator writes to are returned in their order
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const auto* alias = schema.returns()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      const auto writes = [&](std::size_t j) {
        const auto* info = schema.arguments()[j].alias_info();
        return info != nullptr && info->isWrite();
      };
      while (!writes(written)) ++written;
      const at::Tensor to = given[written++].toTensor(), from = wide[i].toTensor();
      if (to.sizes() != from.sizes()) to.resize_(from.sizes());
      if (!to.is_same(from)) to.copy_(from);
      stack.emplace_back(to);
    } else if (is_attention(op) && i == 1 && schema.returns().size() == 2) {
      stack.push_back(std::move(wide[i]));
    } else {
      stack.push_back(ikebana::detail::with_tensors(wide[i], [&](const at::Tensor& t) {
        return t.scalar_type() == at::kFloat ? t.to(type) : t;
      }));
    }
  }
}

/// LibTorch gives an LSTM to oneDNN by the dtype of its input, and computes one of 16 bits position
/// by position if oneDNN has no kernel for it. Autocast gives the layers 16 bits again, which
/// autograd saves.
inline void compute_lstm(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                         at::ScalarType type) {
  const auto converted = [&](std::size_t n, at::ScalarType from, at::ScalarType to) {
    for (std::size_t i = stack.size() - n; i < stack.size(); ++i)
      stack[i] = ikebana::detail::with_tensors(
          stack[i], [&](const at::Tensor& t) { return t.scalar_type() == from ? t.to(to) : t; });
  };
  converted(op.schema().arguments().size(), type, at::kFloat);
  op.callBoxed(stack);
  converted(op.schema().returns().size(), at::kFloat, type);
}

/// LibTorch calls this for each operator of `wide_operators` while a scope is open: above autograd,
/// and again in the place of the kernel (`call_kernel`). Operators in FP32 are passed on, because
/// autocast may call them again in 16 bits. Calls in 16 bits are computed here, unless autograd or
/// an OperatorScope has to see them first.
inline void call_products(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  const auto type = half_type(op, arguments_of(op, *stack));
  if (type && is_lstm(op)) return compute_lstm(op, *stack, *type);
  const bool is_kernel = c10::impl::tls_is_dispatch_key_excluded(operator_key);
  const bool is_seen = !is_kernel && c10::impl::tls_is_dispatch_key_included(operator_key);
  if (type && !is_seen && (is_kernel || !needs_gradient(op, *stack)))
    return compute_wide(op, *stack, *type);
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, products_key);
  if ((!type || is_seen) && !below.empty()) return op.redispatchBoxed(below, stack);
  const c10::impl::ExcludeDispatchKeyGuard once(products_key);
  const c10::impl::IncludeDispatchKeyGuard below_autograd(operator_key);
  op.callBoxed(stack);
}

/// Registers the kernels once per process. The first library that needs them registers them, and
/// keeps them until it ends. Returns false if another library uses the key.
inline bool register_products() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.findSchema({products_marker, ""})) return true;
  if (dispatcher.hasBackendFallbackForDispatchKey(products_key) ||
      !operator_modes_available<AllOperators>())
    return false;
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&call_products));
  keep(
      dispatcher.registerFallback(products_key, c10::KernelFunction::makeFallthrough(), "ikebana"));
  const auto kernel = c10::KernelFunction::makeFromBoxedFunction<&call_products>();
  for (const auto& [name, overload] : wide_operators)
    if (dispatcher.findSchema({name, overload}))
      keep(dispatcher.registerImpl({name, overload}, products_key, kernel, std::nullopt, nullptr,
                                   "ikebana"));
  static auto& marker =
      *new torch::Library(torch::Library::FRAGMENT, "ikebana", std::nullopt, __FILE__, __LINE__);
  marker.def("wide_products_v1() -> ()");
  return true;
}

/// Returns true if LibTorch gives convolutions of this dtype to oneDNN. LibTorch decides this for
/// its products in the same way, by the processor, the environment and LibTorch's settings.
inline bool onednn_takes(at::ScalarType type) {
  const auto options = at::TensorOptions(at::kCPU).dtype(type);
  const at::Tensor image = at::empty({1, 32, 8, 8}, options),
                   weight = at::empty({32, 32, 3, 3}, options);
  const std::vector<c10::SymInt> one{1, 1};
  return at::native::select_conv_backend(image, weight, {}, one, one, one, false, {0, 0}, 1, {}) ==
         at::native::ConvBackend::Mkldnn;
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE bool has_native_products(at::ScalarType type) {
  if (!c10::isReducedFloatingType(type)) return true;
  using ikebana::detail::HalfKind;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return ikebana::detail::has_half_instructions(type == at::kHalf ? HalfKind::FP16
                                                                  : HalfKind::BF16) &&
         detail::onednn_takes(type);
}

IKEBANA_INLINE bool wide_products_available() {
  static const bool available = detail::register_products();
  return available;
}

IKEBANA_INLINE bool is_wide(const OperatorCall& call) {
  return c10::impl::tls_is_dispatch_key_included(products_key) &&
         call.op().hasKernelForDispatchKey(products_key) &&
         detail::half_type(call.op(), call.arguments());
}

IKEBANA_INLINE WideProductsScope::WideProductsScope(bool opens) {
  if (opens) include_.emplace(products_key);
}

}  // namespace ikebana::bridge
