#pragma once
// Computes products of 16-bit matrices in FP32, on processors that have no instructions for them:
// LibTorch multiplies there in a loop that takes many times as long as MKL's FP32. Kernels are
// registered at a dispatch key that LibTorch does not use, and called on a thread only while a
// scope is open there. The computation itself happens below autograd, which saves the tensors of 16
// bits.

#include <atomic>
#include <ikebana/bridge/operators.hpp>
#include <optional>

namespace ikebana::bridge {

namespace detail {

inline constexpr const char* products_marker = "ikebana::wide_products_v1";

/// The operators that are computed in FP32: they multiply and are not composed of others. Sums of
/// one row or column, as in `mv` and `dot`, are as fast in 16 bits.
inline constexpr std::pair<const char*, const char*> wide_operators[] = {
    {"aten::mm", ""},
    {"aten::mm", "out"},
    {"aten::addmm", ""},
    {"aten::addmm", "out"},
    {"aten::addmm_", ""},
    {"aten::_addmm_activation", ""},
    {"aten::_addmm_activation", "out"},
    {"aten::bmm", ""},
    {"aten::bmm", "out"},
    {"aten::baddbmm", ""},
    {"aten::baddbmm", "out"},
    {"aten::baddbmm_", ""},
    {"aten::addbmm", ""},
    {"aten::addbmm", "out"},
    {"aten::addbmm_", ""},
    {"aten::convolution", ""},
    {"aten::convolution", "out"},
    {"aten::convolution_backward", ""},
    {"aten::convolution_backward", "out"},
    {"aten::conv_tbc", ""},
    {"aten::_trilinear", ""},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", ""},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", ""},
    {"aten::lstm", "input"},
    {"aten::mkldnn_rnn_layer", ""},
    {"aten::mkldnn_rnn_layer_backward", ""},
};

/// The number of calls that this process has computed in FP32.
inline std::atomic<std::int64_t> wide_calls = 0;

}  // namespace detail

/// Returns true if LibTorch's CPU computes products of this dtype of 16 bits by instructions of the
/// processor. Returns false for oneDNN's conversions, which take twice as long as FP32 or longer,
/// and for LibTorch's own loop, which takes 10 to 50 times as long. Returns true for every other
/// dtype. Costs some microseconds.
bool has_native_products(at::ScalarType type);

/// Returns true if WideProductsScope can be opened; false if another library uses a dispatch key
/// that it needs. The first call registers the kernels that intercept, which stay until the process
/// ends; operators reach them only while a scope is open.
bool wide_products_available();

/// Returns true if the call is computed in FP32.
bool is_wide(const OperatorCall& call);

/// RAII: on this thread, and on threads that run a backward started inside of it, products of
/// matrices, convolutions, attention and LSTMs of 16-bit tensors on the CPU are computed in FP32
/// and their results are rounded. Autograd saves the tensors of 16 bits, and other scopes see the
/// operators as they were called. Costs FP32 copies of a product's arguments and its result while
/// it is computed, and about a microsecond per product. Requires wide_products_available().
class WideProductsScope {
 public:
  explicit WideProductsScope(bool opens = true);
  WideProductsScope(const WideProductsScope&) = delete;
  WideProductsScope& operator=(const WideProductsScope&) = delete;

  /// Returns true if a scope is open on this thread.
  static bool is_open() { return c10::impl::tls_is_dispatch_key_included(products_key); }

  /// Returns the number of operators that this process has computed in FP32 so far.
  static std::int64_t count() { return detail::wide_calls.load(std::memory_order_relaxed); }

 private:
  std::optional<c10::impl::IncludeDispatchKeyGuard> include_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/wide_products.ipp>
#endif
