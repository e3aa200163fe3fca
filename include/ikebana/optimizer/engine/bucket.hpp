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
bool may_hold(const Bucket& b, std::size_t group, bool first_step, const at::Tensor& p);
/// Whether an update is rejected, as far as the host knows, or after it has waited for the device.
bool is_rejected(const std::optional<at::Tensor>& found_inf, bool waits);
/// Makes room for copies of everything that an update of the bucket changes.
void keep_whole(Bucket& bucket);
/// Of numbers that a recorded step contains, and that are others where it is to be replayed.
inline constexpr const char* frozen_numbers =
    "this step is a replay of a recorded one, which contains the weight_decay, betas, eps and "
    "momentum of each group, and one of them has changed since, by its value or by the schedule. "
    "Record the step again, or make ordinary steps.";
/// Not a part of what is recorded: each replay has another rate, which is set before it.
void set_lr(at::Tensor& rate, double lr);
/// Sets a bucket's rate for this step. On a device an operator that takes the rate as a number
/// (`is_number`) spares the one that would write it there.
void set_rate(Bucket& b, double lr, bool is_number);
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
bool same_layout(const at::Tensor& a, const at::Tensor& b);
bool same_layout_and_dtype(const at::Tensor& a, const at::Tensor& b);

/// Which part of its whole a rank's tensor of state is: the rows that its master has, or all.
Slice same_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0);
Slice all_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0);

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

  at::Tensor operator()(const at::Tensor& p, const Slice& of_master) const;
};

/// Of a parameter that its state does not fit any more.
[[noreturn]] void refuse_changed(const std::string& name);
/// An optimizer that updates all masters.
struct EveryMaster {
  bool operator()(std::size_t) const { return true; }
};

/// The gradient in the memory order and dtype of its parameter. Throws BadModel if it is sparse.
at::Tensor dense_gradient(const at::Tensor& gradient, const at::Tensor& p, const std::string& name);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/bucket.ipp>
#endif
