#pragma once
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/modules/linear.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const std::optional<c10::OperatorHandle>& onednn_linear() {
  static const auto found =
      c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  return found;
}

IKEBANA_INLINE bool is_amd() {
#if defined(__x86_64__)
  static const bool is = (__builtin_cpu_init(), __builtin_cpu_is("amd") != 0);
  return is;
#else
  return false;
#endif
}

IKEBANA_INLINE int& GeneratingScope::depth() {
  static thread_local int scopes = 0;
  return scopes;
}

/// Chooses by sizes alone; bench/few_rows.cpp measures both sides of the rule.
inline bool onednn_is_faster(std::int64_t rows, std::int64_t elements_of_weight) {
  if (rows < 1 || rows > 8) return false;
  return elements_of_weight >= (rows == 1 ? std::int64_t{1} << 20 : std::int64_t{1} << 18);
}

IKEBANA_INLINE at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight,
                                           const at::Tensor& bias) {
  torch::jit::Stack stack;
  stack.emplace_back(x), stack.emplace_back(weight);
  stack.emplace_back(bias.defined() ? c10::IValue(bias) : c10::IValue());
  stack.emplace_back("none");
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back(c10::IValue());
  onednn_linear()->callBoxed(&stack);
  return stack.at(0).toTensor();
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias) {
  const auto fits = [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous();
  };
  const bool may_choose = detail::GeneratingScope::is_open() && detail::is_amd() &&
                          detail::onednn_linear() && !at::GradMode::is_enabled() &&
                          !at::autocast::is_autocast_enabled(at::kCPU);
  if (may_choose && x.dim() > 0 && weight.dim() == 2 && weight.size(1) > 0 &&
      x.size(-1) == weight.size(1) && fits(x) && fits(weight) && (!bias.defined() || fits(bias)) &&
      detail::onednn_is_faster(x.numel() / weight.size(1), weight.numel()))
    return detail::linear_by_onednn(x, weight, bias);
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

}  // namespace ikebana::modules
