#pragma once
// Linear layers, seen above autograd and autocast, so that another product may take their place in
// a model that nobody edits. A dispatch key that LibTorch itself never uses, DeferredInit, gets a
// kernel for the operators that linear layers are made of; it is asked on a thread only while a
// scope is open there.

#include <deque>
#include <ikebana/posix/library.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <optional>

namespace ikebana::bridge {

/// Answers for linear layers while a LinearScope is open. Lives in LibTorch's thread-local list, so
/// that several libraries of a process share one registration; its name carries a version.
struct LinearHookV1 : c10::DebugInfoBase {
  /// `input * weight^T + bias`, differentiable; nullopt leaves it to LibTorch.
  virtual std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias) = 0;
};

namespace detail {

inline constexpr auto linear_key = c10::DispatchKey::DeferredInit;
inline constexpr const char* linear_marker = "ikebana::linear_hook_v1";

/// The place in LibTorch's list. Newer versions know a place by an address, which two libraries do
/// not share; so it is one of LibTorch's own, which only its own tests use, and what is found there
/// is looked at before it is believed.
inline c10::DebugInfoKind linear_kind() { return c10::DebugInfoKind::TEST_INFO_2; }

/// Asks the open scope's hook; never again from inside.
inline std::optional<at::Tensor> ask_linear_hook(const at::Tensor& input, const at::Tensor& weight,
                                                 const std::optional<at::Tensor>& bias) {
  auto* hook = dynamic_cast<LinearHookV1*>(c10::ThreadLocalDebugInfo::get(linear_kind()));
  return hook == nullptr ? std::nullopt : hook->linear(input, weight, bias);
}
/// W, where `t` is W.t(): torch::nn::Linear multiplies by that.
inline std::optional<at::Tensor> transposed(const at::Tensor& t) {
  if (t.dim() != 2 || !t.is_view()) return {};
  at::Tensor w(t._base());
  if (w.dim() != 2 || w.size(0) != t.size(1) || w.size(1) != t.size(0)) return {};
  if (w.stride(0) != t.stride(1) || w.stride(1) != t.stride(0) || !w.is_alias_of(t)) return {};
  return w.storage_offset() == t.storage_offset() ? std::optional(w) : std::nullopt;
}

inline at::Tensor linear_seen(const at::Tensor& input, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias) {
  c10::impl::ExcludeDispatchKeyGuard below(linear_key);
  if (auto y = ask_linear_hook(input, weight, bias)) return *y;
  return at::linear(input, weight, bias);
}
inline at::Tensor addmm_seen(const at::Tensor& bias, const at::Tensor& input,
                             const at::Tensor& weight_t, const at::Scalar& beta,
                             const at::Scalar& alpha) {
  c10::impl::ExcludeDispatchKeyGuard below(linear_key);
  if (beta.equal(1) && alpha.equal(1))
    if (auto weight = transposed(weight_t))
      if (auto y = ask_linear_hook(input, *weight, bias)) return *y;
  return at::addmm(bias, input, weight_t, beta, alpha);
}
inline at::Tensor matmul_seen(const at::Tensor& input, const at::Tensor& weight_t) {
  c10::impl::ExcludeDispatchKeyGuard below(linear_key);
  if (auto weight = transposed(weight_t))
    if (auto y = ask_linear_hook(input, *weight, {})) return *y;
  return at::matmul(input, weight_t);
}

/// Once a process, whichever library comes first; kept until it ends.
inline void register_linear_hook() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.findSchema({linear_marker, ""})) return;
  if (dispatcher.hasBackendFallbackForDispatchKey(linear_key))
    throw Error(
        "LinearScope: another library of this process uses LibTorch's dispatch key DeferredInit, "
        "by which linear layers would be seen. Run without that library, or leave out what needs "
        "it: Precision<FP8>.");
  keep_loaded(reinterpret_cast<const void*>(&linear_seen));
  using torch::Library;
  static auto& never_taken_back = *new std::deque<Library>;
  auto made = [](Library::Kind kind, const char* space,
                 std::optional<c10::DispatchKey> key) -> Library& {
    return never_taken_back.emplace_back(kind, space, key, __FILE__, __LINE__);
  };
  made(Library::IMPL, "_", linear_key).fallback(torch::CppFunction::makeFallthrough());
  made(Library::IMPL, "aten", linear_key)
      .impl("linear", linear_seen)
      .impl("addmm", addmm_seen)
      .impl("matmul", matmul_seen);
  made(Library::FRAGMENT, "ikebana", {}).def("linear_hook_v1() -> ()");
}

}  // namespace detail

/// While alive, `hook` is asked for the linear layers of this thread: `at::linear`, and the `addmm`
/// and `matmul` with W.t() that torch::nn::Linear calls. The innermost scope answers. Costs some
/// nanoseconds an operator while it is open. Throws ikebana::Error where another library has taken
/// the dispatch key.
class LinearScope {
 public:
  explicit LinearScope(std::shared_ptr<LinearHookV1> hook)
      : info_((install(), detail::linear_kind()), std::move(hook)), key_(detail::linear_key) {}
  LinearScope(const LinearScope&) = delete;
  LinearScope& operator=(const LinearScope&) = delete;

  /// What the first scope does: a process-wide registration.
  static void install() {
    static const bool once = (detail::register_linear_hook(), true);
    (void)once;
  }

 private:
  c10::DebugInfoGuard info_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace ikebana::bridge
