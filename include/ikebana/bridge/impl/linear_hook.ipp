#pragma once
#include <deque>
#include <ikebana/bridge/linear_hook.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE std::optional<at::Tensor> call_linear_hook(const at::Tensor& input,
                                                          const at::Tensor& weight,
                                                          const std::optional<at::Tensor>& bias) {
  auto* hook = dynamic_cast<LinearHookV1*>(c10::ThreadLocalDebugInfo::get(linear_debug_kind()));
  return hook == nullptr ? std::nullopt : hook->linear(input, weight, bias);
}

IKEBANA_INLINE std::optional<at::Tensor> base_of_transpose(const at::Tensor& t) {
  if (t.dim() != 2 || !t.is_view()) return {};
  at::Tensor w(t._base());
  if (w.dim() != 2 || w.size(0) != t.size(1) || w.size(1) != t.size(0)) return {};
  if (w.stride(0) != t.stride(1) || w.stride(1) != t.stride(0) ||
      !ikebana::detail::same_storage(w, t))
    return {};
  return w.storage_offset() == t.storage_offset() ? std::optional(w) : std::nullopt;
}

IKEBANA_INLINE at::Tensor linear_kernel(const at::Tensor& input, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (auto y = call_linear_hook(input, weight, bias)) return *y;
  return at::linear(input, weight, bias);
}

IKEBANA_INLINE at::Tensor addmm_kernel(const at::Tensor& bias, const at::Tensor& input,
                                       const at::Tensor& weight_t, const at::Scalar& beta,
                                       const at::Scalar& alpha) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (beta.equal(1) && alpha.equal(1))
    if (auto weight = base_of_transpose(weight_t))
      if (auto y = call_linear_hook(input, *weight, bias)) return *y;
  return at::addmm(bias, input, weight_t, beta, alpha);
}

IKEBANA_INLINE at::Tensor matmul_kernel(const at::Tensor& input, const at::Tensor& weight_t) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (auto weight = base_of_transpose(weight_t))
    if (auto y = call_linear_hook(input, *weight, {})) return *y;
  return at::matmul(input, weight_t);
}

/// Registers the kernels once per process, by the first library that needs them, until it ends.
inline void register_linear_hook() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.findSchema({linear_marker, ""})) return;
  if (dispatcher.hasBackendFallbackForDispatchKey(linear_key))
    throw Error(
        "LinearScope: another library of this process uses LibTorch's dispatch key DeferredInit, "
        "by which linear layers are intercepted. Run without that library, or leave out "
        "Precision<FP8>, which needs the key.");
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&linear_kernel));
  using torch::Library;
  static auto& registrations = *new std::deque<Library>;  // never unregistered
  auto add_library = [](Library::Kind kind, const char* space,
                        std::optional<c10::DispatchKey> key) -> Library& {
    return registrations.emplace_back(kind, space, key, __FILE__, __LINE__);
  };
  add_library(Library::IMPL, "_", linear_key).fallback(torch::CppFunction::makeFallthrough());
  add_library(Library::IMPL, "aten", linear_key)
      .impl("linear", linear_kernel)
      .impl("addmm", addmm_kernel)
      .impl("matmul", matmul_kernel);
  add_library(Library::FRAGMENT, "ikebana", {}).def("linear_hook_v1() -> ()");
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE void LinearScope::install() {
  static const bool once = (detail::register_linear_hook(), true);
  (void)once;
}

}  // namespace ikebana::bridge
