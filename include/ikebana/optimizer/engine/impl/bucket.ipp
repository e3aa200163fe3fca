#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool may_hold(const Bucket& b, std::size_t group, bool first_step,
                             const at::Tensor& p) {
  return b.group == group && b.first_step == first_step && b.parameters[0].device() == p.device() &&
         b.parameters[0].scalar_type() == p.scalar_type();
}

IKEBANA_INLINE bool is_rejected(const std::optional<at::Tensor>& found_inf, bool waits) {
  return found_inf && (waits || readable(*found_inf)) && number(*found_inf) != 0;
}

IKEBANA_INLINE void keep_whole(MasterBucket& bucket) {
  for (const at::Tensor& p : bucket.parameters) bucket.copies.reserve(p);
  for (const Tensors& slot : bucket.state)
    for (const at::Tensor& state : slot)
      if (state.defined()) bucket.copies.reserve(state);
}

IKEBANA_INLINE void set_lr(at::Tensor& rate, double lr) {
  if (rate.is_cpu()) *rate.data_ptr<double>() = lr;
  else if (!recording()) rate.fill_(lr);
}

IKEBANA_INLINE void set_rate(Bucket& b, double lr, bool is_number) {
  b.rate = lr;
  if (!is_number || b.lr.is_cpu()) set_lr(b.lr, lr);
}

IKEBANA_INLINE bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && a.device() == b.device() &&
         ((a.is_contiguous() && b.is_contiguous()) ||
          (a.sizes() == b.sizes() && a.strides() == b.strides()));
}

IKEBANA_INLINE bool same_layout_and_dtype(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && same_layout(a, b);
}

IKEBANA_INLINE Slice same_rows(const at::Tensor& state, const Slice& of_master, std::int64_t) {
  Slice slice = whole_slice(state, of_master.unit);
  if (slice.sizes.empty()) return slice;
  slice.sizes[0] = of_master.all_rows(), slice.rows = of_master.rows;
  return slice;
}

IKEBANA_INLINE Slice all_rows(const at::Tensor& state, const Slice& of_master, std::int64_t) {
  return whole_slice(state, of_master.unit);
}

IKEBANA_INLINE at::Tensor Slot::operator()(const at::Tensor& p, const Slice& of_master) const {
  return make ? make(p.detach(), of_master) : at::zeros_like(p.detach());
}

IKEBANA_INLINE void refuse_changed(const std::string& name) {
  throw BadModel("optimizer: `" + name +
                 "` changed its shape, type, device or memory format after its state was made. "
                 "Change the model before the trainer is made.");
}

IKEBANA_INLINE at::Tensor dense_gradient(const at::Tensor& gradient, const at::Tensor& p,
                                         const std::string& name) {
  if (gradient.layout() != at::kStrided)
    throw BadModel("optimizer: the gradient of `" + name +
                   "` is sparse; this optimizer takes dense ones only. Write SparseAdam, which "
                   "updates the rows that have a gradient, or make the embedding with "
                   "sparse(false).");
  return same_layout_and_dtype(gradient, p) ? gradient : at::empty_like(p.detach()).copy_(gradient);
}

IKEBANA_INLINE at::Tensor fused_gradient(const at::Tensor& gradient, const at::Tensor& p,
                                         const std::string& name) {
  at::Tensor dense = dense_gradient(gradient, p, name);
  const bool may_be_rounded = at::isReducedFloatingType(p.scalar_type());  // which needs its shape
  if (dense.is_contiguous() || !p.is_cpu() || may_be_rounded) return dense;
  return in_memory_order(dense);
}

}  // namespace ikebana::detail
