#pragma once
// Intercepts linear layers above autograd and autocast, so that another product (FP8) can replace
// them without a change of the model. Kernels for the operators that linear layers consist of are
// registered at DeferredInit, a dispatch key that LibTorch itself never uses; they are called on a
// thread only while a scope is open there.

#include <concepts>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <optional>

namespace ikebana::bridge {

/// Computes linear layers while a LinearScope is open. Stored in LibTorch's thread-local debug
/// information, so that several libraries of a process share one registration; the class name
/// carries a version.
struct LinearHookV1 : c10::DebugInfoBase {
  /// Returns `input * weight^T + bias`, differentiable, or nullopt if LibTorch is to compute it.
  virtual std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias) = 0;
};

namespace detail {

inline constexpr auto linear_key = c10::DispatchKey::DeferredInit;
inline constexpr const char* linear_marker = "ikebana::linear_hook_v1";

/// Returns the kind of debug information under which the hook is stored. Newer LibTorch identifies
/// a kind by an address, which two libraries would not share. So this is one of LibTorch's own
/// kinds, used only in its tests, and the type of the object found there is checked.
inline c10::DebugInfoKind linear_debug_kind() { return c10::DebugInfoKind::TEST_INFO_2; }

/// Returns the result of the innermost scope's hook, if there is one. The caller excludes the key,
/// so that linear layers inside the hook are not intercepted.
std::optional<at::Tensor> call_linear_hook(const at::Tensor& input, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias);

/// Returns W if `t` is the view W.t(), by which torch::nn::Linear multiplies.
std::optional<at::Tensor> base_of_transpose(const at::Tensor& t);

at::Tensor linear_kernel(const at::Tensor& input, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias);
at::Tensor addmm_kernel(const at::Tensor& bias, const at::Tensor& input, const at::Tensor& weight_t,
                        const at::Scalar& beta, const at::Scalar& alpha);
at::Tensor matmul_kernel(const at::Tensor& input, const at::Tensor& weight_t);

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
  static void install();

 private:
  c10::DebugInfoGuard info_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/linear_hook.ipp>
#endif
