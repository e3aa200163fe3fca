#pragma once
// Buckets: the parameters that one call of an optimizer's operator updates, with their state.
#include <array>
#include <functional>
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks.hpp>
#include <optional>

namespace ikebana::detail {

/// What the update of a group computes with in one step, besides the lr; 0 where the optimizer has
/// no such field. `betas[0]` and `momentum` are those of the schedule.
struct GroupNumbers {
  double weight_decay = 0;
  std::array<double, 2> betas = {};
  double eps = 0, momentum = 0;

  friend bool operator==(const GroupNumbers&, const GroupNumbers&) = default;
};

/// Parameters that are updated together: of one group, device and dtype.
struct Bucket {
  std::size_t group = 0;         ///< index of the group; the number of groups means none
  bool first_step = false;       ///< of these parameters, or of a slot of their state
  bool ends_first_step = false;  ///< this update, which was accepted, was the first
  GroupNumbers numbers = {};
  double rate = 0;     ///< the lr of this step
  at::Tensor lr = {};  ///< the same, one element on the parameters' device, which a recorded step
                       ///< reads; on a device an ordinary step may leave it as it was (`set_rate`)
  Tensors parameters = {}, gradients = {}, steps = {};
  std::vector<Tensors> state = {};        ///< by slot, then by parameter
  std::vector<std::size_t> indices = {};  ///< index of each among the masters
  /// Where updates are rounded, each parameter as a bucket of its own, in FP32 scratch; and both in
  /// memory order, in one dimension.
  std::vector<Bucket> in_fp32 = {};
  Tensors flat = {}, flat_in_fp32 = {};
  /// All of its state, where an update uses state in windows: one for each bucket.
  Tensors window = {};
  std::int64_t state_bytes = 0;
  UpdateCopies copies = {};  ///< of what its update changes, where that may have to be undone
};

/// Whether a parameter of that group belongs to the bucket.
inline bool may_hold(const Bucket& b, std::size_t group, bool first_step, const at::Tensor& p) {
  return b.group == group && b.first_step == first_step && b.parameters[0].device() == p.device() &&
         b.parameters[0].scalar_type() == p.scalar_type();
}
/// Whether an update is rejected, as far as the host knows, or after it has waited for the device.
inline bool is_rejected(const std::optional<at::Tensor>& found_inf, bool waits) {
  return found_inf && (waits || readable(*found_inf)) && number(*found_inf) != 0;
}
/// Makes room for copies of everything that an update of the bucket changes.
inline void keep_whole(Bucket& bucket) {
  for (const at::Tensor& p : bucket.parameters) bucket.copies.reserve(p);
  for (const Tensors& slot : bucket.state)
    for (const at::Tensor& state : slot)
      if (state.defined()) bucket.copies.reserve(state);
}
/// Of numbers that a recorded step contains, and that are others where it is to be replayed.
inline constexpr const char* frozen_numbers =
    "this step is a replay of a recorded one, which contains the weight_decay, betas, eps and "
    "momentum of each group, and one of them has changed since, by its value or by the schedule. "
    "Record the step again, or make ordinary steps.";
/// Not a part of what is recorded: each replay has another rate, which is set before it.
inline void set_lr(at::Tensor& rate, double lr) {
  if (rate.is_cpu()) *rate.data_ptr<double>() = lr;
  else if (!recording()) rate.fill_(lr);
}
/// Sets a bucket's rate for this step. On a device an operator that takes the rate as a number
/// (`is_number`) spares the one that would write it there.
inline void set_rate(Bucket& b, double lr, bool is_number) {
  b.rate = lr;
  if (!is_number || b.lr.is_cpu()) set_lr(b.lr, lr);
}
/// Calls a fused operator, `apply(lr)`, with the rate as a tensor where the host writes to it for
/// nothing or a recorded step must read it, and otherwise as a number.
template <class Apply>
void with_rate(const Bucket& b, const Apply& apply) {
  if (b.lr.is_cpu() || recording()) apply(b.lr);
  else apply(b.rate);
}

// Fused operators read the memory of their lists and compare neither shapes nor strides nor dtypes,
// so these functions do.

/// True for as many elements in the same memory order on the same device.
inline bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && a.device() == b.device() &&
         ((a.is_contiguous() && b.is_contiguous()) ||
          (a.sizes() == b.sizes() && a.strides() == b.strides()));
}
inline bool same_layout_and_dtype(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && same_layout(a, b);
}

/// Which part of its whole a rank's tensor of state is: the rows that its master has, or all.
inline Slice same_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0) {
  Slice slice = whole_slice(state, of_master.unit);
  if (slice.sizes.empty()) return slice;
  slice.sizes[0] = of_master.all_rows(), slice.rows = of_master.rows;
  return slice;
}
inline Slice all_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0) {
  return whole_slice(state, of_master.unit);
}

/// One tensor of a parameter's state, such as a moment. It is made when the parameter's first
/// gradient arrives.
struct Slot {
  using Make = std::function<at::Tensor(const at::Tensor& parameter, const Slice& of_master)>;
  using Matches = bool (*)(const at::Tensor& state, const at::Tensor& parameter);
  using Cut = Slice (*)(const at::Tensor& state, const Slice& of_master, std::int64_t block_size);

  const char* name;
  Make make = {};  ///< empty: zeros like the parameter. An undefined result: no such state.
  Matches matches = &same_layout_and_dtype;  ///< false if the parameter changed after `make`
  Cut cut = &same_rows;         ///< which part of the whole parameter's state a rank's tensor is
  std::int64_t block_size = 0;  ///< of state that has one element for a block of elements

  at::Tensor operator()(const at::Tensor& p, const Slice& of_master) const {
    return make ? make(p.detach(), of_master) : at::zeros_like(p.detach());
  }
};

/// Of a parameter that its state does not fit any more.
[[noreturn]] inline void refuse_changed(const std::string& name) {
  throw BadModel("optimizer: `" + name +
                 "` changed its shape, type, device or memory format after its state was made. "
                 "Change the model before the trainer is made.");
}
/// An optimizer that updates all masters.
struct EveryMaster {
  bool operator()(std::size_t) const { return true; }
};

/// The gradient in the memory order and dtype of its parameter. Throws BadModel if it is sparse.
inline at::Tensor dense_gradient(const at::Tensor& gradient, const at::Tensor& p,
                                 const std::string& name) {
  if (gradient.layout() != at::kStrided)
    throw BadModel("optimizer: the gradient of `" + name +
                   "` is sparse; this optimizer takes dense ones only. Write SparseAdam, which "
                   "updates the rows that have a gradient, or make the embedding with "
                   "sparse(false).");
  return same_layout_and_dtype(gradient, p) ? gradient : at::empty_like(p.detach()).copy_(gradient);
}

}  // namespace ikebana::detail
