#pragma once
// Intercepts linear layers above autograd and autocast, so that another product (FP8) can replace
// them without a change of the model. Kernels for the operators that linear layers consist of are
// registered at DeferredInit, a dispatch key that LibTorch itself never uses; they are called on a
// thread only while a scope is open there.

#include <concepts>
#include <deque>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <memory>
#include <optional>

namespace ikebana::bridge {

/// Computes linear layers while a LinearScope is open. Stored in LibTorch's thread-local debug
/// information, so that several libraries of a process share one registration; the class name
/// carries a version.
struct LinearHookV1 : c10::DebugInfoBase {
  /// `input * weight^T + bias`, differentiable; nullopt: LibTorch computes it.
  virtual std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias) = 0;
};

namespace detail {

inline constexpr auto linear_key = c10::DispatchKey::DeferredInit;
inline constexpr const char* linear_marker = "ikebana::linear_hook_v1";

/// The kind of debug information under which the hook is stored. Newer LibTorch identifies a kind
/// by an address, which two libraries would not share; so this is one of LibTorch's own kinds, used
/// only in its tests, and the type of what is found there is checked.
inline c10::DebugInfoKind linear_debug_kind() { return c10::DebugInfoKind::TEST_INFO_2; }

/// The result of the innermost scope's hook, if there is one. The caller excludes the key, so that
/// linear layers inside the hook are not intercepted.
inline std::optional<at::Tensor> call_linear_hook(const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias) {
  auto* hook = dynamic_cast<LinearHookV1*>(c10::ThreadLocalDebugInfo::get(linear_debug_kind()));
  return hook == nullptr ? std::nullopt : hook->linear(input, weight, bias);
}

/// W, if `t` is the view W.t(), by which torch::nn::Linear multiplies.
inline std::optional<at::Tensor> base_of_transpose(const at::Tensor& t) {
  if (t.dim() != 2 || !t.is_view()) return {};
  at::Tensor w(t._base());
  if (w.dim() != 2 || w.size(0) != t.size(1) || w.size(1) != t.size(0)) return {};
  if (w.stride(0) != t.stride(1) || w.stride(1) != t.stride(0) ||
      !ikebana::detail::same_storage(w, t))
    return {};
  return w.storage_offset() == t.storage_offset() ? std::optional(w) : std::nullopt;
}

inline at::Tensor linear_kernel(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (auto y = call_linear_hook(input, weight, bias)) return *y;
  return at::linear(input, weight, bias);
}
inline at::Tensor addmm_kernel(const at::Tensor& bias, const at::Tensor& input,
                               const at::Tensor& weight_t, const at::Scalar& beta,
                               const at::Scalar& alpha) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (beta.equal(1) && alpha.equal(1))
    if (auto weight = base_of_transpose(weight_t))
      if (auto y = call_linear_hook(input, *weight, bias)) return *y;
  return at::addmm(bias, input, weight_t, beta, alpha);
}
inline at::Tensor matmul_kernel(const at::Tensor& input, const at::Tensor& weight_t) {
  c10::impl::ExcludeDispatchKeyGuard exclude(linear_key);
  if (auto weight = base_of_transpose(weight_t))
    if (auto y = call_linear_hook(input, *weight, {})) return *y;
  return at::matmul(input, weight_t);
}

/// Registers the kernels once per process, by the first library that needs them, until it ends.
/// A template, so that only files that open a LinearScope compile it.
template <class = void>
void register_linear_hook() {
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

}  // namespace detail

/// RAII: `hook` is called for the linear layers of this thread: `at::linear`, and the `addmm` and
/// `matmul` with W.t() that torch::nn::Linear calls. Scopes nest; only the innermost hook is
/// called. Costs some nanoseconds per operator while it is open. Throws ikebana::Error if another
/// library uses the dispatch key.
class LinearScope {
 public:
  template <std::derived_from<LinearHookV1> Hook>
  explicit LinearScope(std::shared_ptr<Hook> hook)
      : info_((install(), detail::linear_debug_kind()), std::move(hook)),
        key_(detail::linear_key) {}
  LinearScope(const LinearScope&) = delete;
  LinearScope& operator=(const LinearScope&) = delete;

  /// Makes the process-wide registration, which otherwise the first scope makes.
  template <class = void>
  static void install() {
    static const bool once = (detail::register_linear_hook(), true);
    (void)once;
  }

 private:
  c10::DebugInfoGuard info_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace ikebana::bridge
