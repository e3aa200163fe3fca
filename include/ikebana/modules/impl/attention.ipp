#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/detail/exporting.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/attention.hpp>
#include <ikebana/modules/chunked_attention.hpp>
#include <ikebana/modules/composed_attention.hpp>
#include <ikebana/modules/packed_attention.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor zeros_without_keys(const at::Tensor& result, const at::Tensor& mask) {
  if (!result.is_cuda() || c10::elementSize(result.scalar_type()) != 2) return result;
  const at::Tensor left_out = mask.scalar_type() == at::kBool
                                  ? mask.logical_not()
                                  : mask == -std::numeric_limits<double>::infinity();
  return result.masked_fill(left_out.all(-1, /*keepdim=*/true), 0);
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE const char* name(AttentionForm form) {
  switch (form) {
    case AttentionForm::Fused:
      return "fused";
    case AttentionForm::Composed:
      return "composed";
    case AttentionForm::Widened:
      return "widened";
    case AttentionForm::Chunked:
      return "chunked";
    default:
      return "fastest";
  }
}

}  // namespace ikebana::modules

namespace ikebana::detail {

IKEBANA_INLINE modules::AttentionForm fastest_form(const AttentionShape& s) {
  using Form = modules::AttentionForm;
  if (s.device != c10::kCPU || !s.composable) return Form::Fused;
  const auto product = s.queries * s.keys * s.width;
  const bool costly = product > cheap_product && (s.training || !s.has_fused_kernel);
  // There is no fast CPU kernel for FP16, neither for forward nor for backward; LibTorch's backward
  // rounds the weights of large scores to FP16. Products that are computed in FP32 cost what FP32
  // products do.
  const bool is_half = s.dtype == at::kHalf && !s.wide;
  if (is_half && (s.training || product > cheap_product)) return Form::Widened;
  const bool is_bf16 = s.dtype == at::kBFloat16 && !s.wide;
  const bool small = s.heads * product <= widened_work || product <= widened_product;
  if (is_bf16 && costly && small) return Form::Widened;
  const auto scores = 4 * s.heads * s.queries * s.keys;
  if (!s.has_fused_kernel) return scores > composed_bytes ? Form::Chunked : Form::Composed;
  const bool is_short = s.queries <= composed_length && s.keys <= composed_length;
  return is_bf16 && costly && is_short ? Form::Composed : Form::Fused;
}

IKEBANA_INLINE AttentionCall::AttentionCall(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const modules::AttentionOptions& o)
    : query_(q), key_(k), value_(v), options_(o) {
  check_tensors();
  for (auto* x : {&query_, &key_, &value_}) *x = as_autocast(*x);
  check_options();
  check_sizes();
  const auto batch_sizes = broadcast_sizes();
  if (options_.attn_mask) convert_mask(*options_.attn_mask), align_mask(*options_.attn_mask);
  for (auto* x : {&query_, &key_, &value_}) expand(*x, batch_sizes, options_.enable_gqa ? 3 : 2);
}

IKEBANA_INLINE modules::AttentionForm AttentionCall::form() const {
  using Form = modules::AttentionForm;
  if (exporting() && options_.form != Form::Widened) return Form::Fused;
  return options_.form == Form::Fastest ? fastest_form(shape()) : options_.form;
}

IKEBANA_INLINE at::Tensor AttentionCall::run() const {
  using Form = modules::AttentionForm;
  const auto chosen = form();
  const auto out = chosen == Form::Widened    ? widened()
                   : chosen == Form::Composed ? composed()
                   : chosen == Form::Chunked  ? chunked()
                                              : fused();
  return out.sizes() == result_ ? out : out.reshape(result_);
}

IKEBANA_INLINE at::Tensor AttentionCall::as_autocast(const at::Tensor& x) {
  const auto device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return x;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
}

IKEBANA_INLINE void AttentionCall::check_tensors() const {
  const auto &q = query_, &k = key_, &v = value_;
  if (!q.defined() || !k.defined() || !v.defined())
    throw Error("attention: query, key or value is an undefined tensor; pass all three");
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2)
    refuse("have fewer than 2 dimensions; they need at least 2 dimensions, (..., length, width)");
  if (q.device() != k.device() || q.device() != v.device())
    refuse("are on " + q.device().str() + ", " + k.device().str() + " and " + v.device().str() +
           "; move them to one device");
}

IKEBANA_INLINE void AttentionCall::check_options() const {
  const auto dtype = query_.scalar_type();
  if (dtype != key_.scalar_type() || dtype != value_.scalar_type() || !query_.is_floating_point())
    refuse(std::string("are ") + c10::toString(dtype) + ", " + c10::toString(key_.scalar_type()) +
           " and " + c10::toString(value_.scalar_type()) + "; give all three one floating dtype");
  if (!(options_.dropout_p >= 0 && options_.dropout_p <= 1))
    refuse("with dropout_p " + std::to_string(options_.dropout_p) + "; it must be from 0 to 1");
  if (options_.scale && !std::isfinite(*options_.scale))
    refuse("with scale " + c10::str(*options_.scale) + "; it must be finite");
  if (!options_.attn_mask) return;
  const auto& mask = *options_.attn_mask;
  if (!mask.defined()) refuse("with an undefined attn_mask; pass a tensor, or leave it out");
  if (options_.is_causal) refuse("with attn_mask and is_causal; put the causal part into the mask");
  if (mask.device() != query_.device())
    refuse("on " + query_.device().str() + " with attn_mask on " + mask.device().str() +
           "; move the mask there");
  if (mask.scalar_type() != at::kBool && !mask.is_floating_point())
    refuse(std::string("with attn_mask of ") + c10::toString(mask.scalar_type()) +
           "; it must be bool (true: the key takes part) or of a floating dtype");
}

IKEBANA_INLINE void AttentionCall::check_sizes() const {
  if (query_.size(-1) != key_.size(-1)) refuse("differ in width; query and key need the same E");
  if (key_.size(-2) != value_.size(-2)) refuse("differ in length; key and value need the same S");
  if (!options_.enable_gqa) return;
  for (const auto* x : {&query_, &key_, &value_})
    if (x->dim() < 3 || (x->size(-3) == 0 ? query_.size(-3) != 0 : query_.size(-3) % x->size(-3)))
      refuse("with enable_gqa; the numbers of heads of key and value must divide the query's");
}

IKEBANA_INLINE std::vector<std::int64_t> AttentionCall::broadcast_sizes() {
  const auto all = {&query_, &key_, &value_};
  const auto dims = std::max({query_.dim(), key_.dim(), value_.dim()});
  const auto count = std::max<std::int64_t>(dims, 4) - (options_.enable_gqa ? 3 : 2);
  std::vector<std::int64_t> batch_sizes(static_cast<std::size_t>(count), 1);
  for (const auto* x : all)
    for (std::int64_t d = 1, last = options_.enable_gqa ? 3 : 2; d + last <= x->dim(); ++d) {
      auto& size = batch_sizes[static_cast<std::size_t>(count - d)];
      const auto of_x = x->size(-last - d);
      if (size == 1) size = of_x;
      if (of_x != size && of_x != 1)
        refuse(last + d == 3 ? "have unequal heads; repeat the fewer heads, or set enable_gqa"
                             : "have batch sizes that do not broadcast; make them equal or 1");
    }
  result_ = batch_sizes;
  if (options_.enable_gqa) result_.push_back(query_.size(-3));
  result_.insert(result_.end(), {query_.size(-2), value_.size(-1)});
  result_.erase(result_.begin(), result_.end() - dims);
  return batch_sizes;
}

IKEBANA_INLINE void AttentionCall::expand(at::Tensor& x, std::vector<std::int64_t> sizes,
                                          std::size_t unchanged) {
  const auto last = x.sizes().slice(x.sizes().size() - unchanged);
  sizes.insert(sizes.end(), last.begin(), last.end());
  if (x.sizes() != sizes) x = x.expand(sizes);
  if (x.dim() > 4) x = x.flatten(0, -4);
}

IKEBANA_INLINE void AttentionCall::convert_mask(at::Tensor& mask) const {
  const auto dtype = query_.scalar_type();
  if (mask.scalar_type() == at::kBool || mask.scalar_type() == dtype) return;
  mask = mask.to(dtype == at::kDouble || !mask.is_cpu() ? dtype : at::kFloat);
}

IKEBANA_INLINE void AttentionCall::align_mask(at::Tensor& mask) const {
  auto scores = result_;
  scores.back() = key_.size(-2);
  if (mask.dim() < 2 || mask.sizes().size() > scores.size() ||
      !at::is_expandable_to(mask.sizes(), scores))
    refuse("with attn_mask " + text(mask.sizes()) + "; it must have 2 to " +
           std::to_string(scores.size()) + " dimensions that broadcast to " + text(scores));
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  if (scores.size() <= 4) return;
  scores.resize(scores.size() - 3);
  expand(mask, scores, 3);
}

IKEBANA_INLINE AttentionShape AttentionCall::shape() const {
  const auto &q = query_, &k = key_, &v = value_;
  const bool mask_needs_grad = options_.attn_mask && options_.attn_mask->requires_grad();
  const bool empty = q.numel() == 0 || k.numel() == 0 || v.numel() == 0;
  AttentionShape s{};
  s.device = q.device().type();
  s.dtype = q.scalar_type();
  s.heads = q.size(0) * q.size(1);
  s.queries = q.size(2);
  s.keys = k.size(2);
  s.width = std::max(q.size(3), v.size(3));
  s.training =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  s.composable = !mask_needs_grad && !empty && k.size(1) == v.size(1);
  s.has_fused_kernel = s.composable && options_.dropout_p == 0 && q.size(3) == v.size(3);
  s.wide = c10::isReducedFloatingType(s.dtype) && bridge::WideProductsScope::is_open();
  return s;
}

IKEBANA_INLINE at::Tensor AttentionCall::fused() const {
  // Autocast has cast the inputs, and would round the mask.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto& o = options_;
  auto query = query_;
  auto scale = o.scale;
  // The kernel also multiplies the -infinity of later keys. A factor that is not above 0 in FP32
  // would make them infinite or NaN.
  if (o.is_causal && scale && *scale < 0) query = query.neg(), scale = -*scale;
  if (o.is_causal && scale && *scale < 0x1p-126) query = query * *scale, scale = 1;
  const auto out = at::scaled_dot_product_attention(query, key_, value_, o.attn_mask, o.dropout_p,
                                                    o.is_causal, scale, o.enable_gqa);
  return o.attn_mask ? zeros_without_keys(out, *o.attn_mask) : out;
}

IKEBANA_INLINE at::Tensor AttentionCall::composed() const {
  const auto s = shape();
  if (s.device != c10::kCPU || !s.composable) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query_, key_, value_, added_mask(options_.attn_mask, query_), options_.dropout_p,
        options_.is_causal, {}, options_.scale, options_.enable_gqa));
  }
  return ComposedAttention::apply(query_, key_, value_, options_.attn_mask, options_.is_causal,
                                  scale(), options_.dropout_p, s.training);
}

IKEBANA_INLINE at::Tensor AttentionCall::chunked() const {
  const auto s = shape();
  // ComposedAttention draws dropout's numbers on the CPU only; LibTorch composes the calls that it
  // does not support.
  if (!s.composable || (s.device != c10::kCPU && options_.dropout_p > 0)) return composed();
  return ChunkedAttention::apply(query_, key_, value_, options_.attn_mask, options_.is_causal,
                                 scale(), options_.dropout_p);
}

IKEBANA_INLINE double AttentionCall::scale() const {
  return options_.scale.value_or(1 / std::sqrt(static_cast<double>(key_.size(3))));
}

IKEBANA_INLINE at::Tensor AttentionCall::widened() const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  auto options = options_;
  options.form = modules::AttentionForm::Fastest;
  const auto dtype = query_.scalar_type(), wide = dtype == at::kDouble ? dtype : at::kFloat;
  auto& mask = options.attn_mask;
  if (mask && mask->scalar_type() != at::kBool) mask = mask->to(wide);
  const AttentionCall call(query_.to(wide), key_.to(wide), value_.to(wide), options);
  return call.run().to(dtype);
}

IKEBANA_INLINE void AttentionCall::refuse(const std::string& why) const {
  throw Error("attention: query " + text(query_.sizes()) + ", key " + text(key_.sizes()) +
              ", value " + text(value_.sizes()) + ' ' + why);
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const AttentionOptions& options) {
  if (options.offsets.defined()) return detail::packed_attention(query, key, value, options);
  if (key.defined() && key.dim() > 1) detail::refuse_unpacked(key.size(-2));
  return detail::AttentionCall(query, key, value, options).run();
}

IKEBANA_INLINE AttentionForm attention_form(const at::Tensor& query, const at::Tensor& key,
                                            const at::Tensor& value,
                                            const AttentionOptions& options) {
  if (options.offsets.defined())
    throw Error("attention_form: documents of .offsets may differ in form; ask for one document");
  return detail::AttentionCall(query, key, value, options).form();
}

}  // namespace ikebana::modules
