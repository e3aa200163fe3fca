#pragma once
// Defines buckets: the parameters that one call of an optimizer's operator updates, with their
// state.
#include <array>
#include <functional>
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks.hpp>
#include <optional>

namespace ikebana::detail {

/// The numbers, besides the lr, with which the update of a group computes in one step; 0 if the
/// optimizer has no such field.
struct GroupNumbers {
  double weight_decay = 0;           ///< as the policy or the group has it
  std::array<double, 2> betas = {};  ///< the first one follows the schedule
  double eps = 0;                    ///< as the policy or the group has it
  double momentum = 0;               ///< follows the schedule

  friend bool operator==(const GroupNumbers&, const GroupNumbers&) = default;
};

/// Parameters that one call of an operator updates: of one group, device and dtype.
struct Bucket {
  std::size_t group = 0;      ///< index of the group; the number of groups if there is no group
  bool first_step = false;    ///< it is the first of these parameters, or of a slot of their state
  GroupNumbers numbers = {};  ///< the group's numbers in this step
  double rate = 0;            ///< the lr of this step
  at::Tensor lr = {};  ///< `rate` on the parameters' device, for a recorded step; an ordinary step
                       ///< on a device may leave it out of date (`with_lr`)
  Tensors parameters = {};                ///< updated in place
  Tensors gradients = {};                 ///< still to be divided by the step's divisor
  Tensors steps = {};                     ///< the step count of each, with this step
  std::vector<Tensors> state = {};        ///< by slot, then by parameter
  std::vector<std::size_t> indices = {};  ///< index of each among the masters

  /// Calls a fused operator, `apply(lr)`. The lr is a tensor on a CPU, where writing it costs
  /// nothing, and in a recorded step, which must read it; otherwise it is a number.
  template <class Apply>
  void with_lr(const Apply& apply) const {
    if (lr.is_cpu() || recording()) apply(lr);
    else apply(rate);
  }
};

/// A bucket of masters, with what a step needs besides to update them and to undo that.
struct MasterBucket : Bucket {
  bool ends_first_step = false;  ///< this update, which was accepted, was the first
  /// If updates are rounded: each parameter as a separate bucket, in FP32 scratch; and the
  /// parameter and its scratch in memory order, in one dimension.
  std::vector<Bucket> in_fp32 = {};
  Tensors flat = {}, flat_in_fp32 = {};
  /// All state of the bucket, if updates use state in windows; a bucket is one window.
  Tensors window = {};
  std::int64_t state_bytes = 0;
  UpdateCopies copies = {};  ///< the copies of all that its update changes, if that may be undone
};

/// Returns true if a parameter of that group belongs to the bucket.
bool may_hold(const Bucket& b, std::size_t group, bool first_step, const at::Tensor& p);
/// Returns true if the host knows that the update is rejected. With `waits` it waits for the device
/// to know.
bool is_rejected(const std::optional<at::Tensor>& found_inf, bool waits);
/// Makes room for copies of everything that an update of the bucket changes.
void keep_whole(MasterBucket& bucket);
/// The error of a replay if numbers that the recorded step contains have changed.
inline constexpr const char* frozen_numbers =
    "this step is a replay of a recorded one, which contains the weight_decay, betas, eps and "
    "momentum of each group, and one of them has changed since, by its value or by the schedule. "
    "Record the step again, or make ordinary steps.";
/// Sets the rate on its device. Is not part of a recorded step: each replay has another rate, which
/// is set before it.
void set_lr(at::Tensor& rate, double lr);
/// Sets a bucket's rate for this step. If the operator takes the rate as a number (`is_number`), no
/// operator writes it to a device.
void set_rate(Bucket& b, double lr, bool is_number);

// Fused operators read the memory of their lists and compare neither shapes nor strides nor dtypes,
// so these functions do.

/// Returns true if both have as many elements in the same memory order on the same device.
bool same_layout(const at::Tensor& a, const at::Tensor& b);
bool same_layout_and_dtype(const at::Tensor& a, const at::Tensor& b);

/// Returns the part of the whole state that a rank's tensor is: the rows that its master has, or
/// all rows.
Slice same_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0);
Slice all_rows(const at::Tensor& state, const Slice& of_master, std::int64_t = 0);

/// One tensor of a parameter's state, such as a moment. It is made when the parameter's first
/// gradient arrives.
struct Slot {
  /// Makes the state of a parameter, or of the slice `of_master` of one.
  using Make = std::function<at::Tensor(const at::Tensor& parameter, const Slice& of_master)>;
  /// Returns whether state still fits its parameter.
  using Matches = bool (*)(const at::Tensor& state, const at::Tensor& parameter);
  /// Returns the part of the whole parameter's state that the state of a slice is.
  using Cut = Slice (*)(const at::Tensor& state, const Slice& of_master, std::int64_t block_size);

  const char* name;  ///< in a saved state, after the parameter's name and a dot
  Make make = {};    ///< empty: zeros like the parameter. An undefined result means that the
                     ///< parameter has no such state.
  Matches matches = &same_layout_and_dtype;  ///< false if the parameter changed after `make`
  Cut cut = &same_rows;         ///< the part of the whole parameter's state that a rank's tensor is
  std::int64_t block_size = 0;  ///< the size of a block of elements that share one element of state

  /// Returns new state of `p`, as `make` makes it.
  at::Tensor operator()(const at::Tensor& p, const Slice& of_master) const;
};

/// Throws BadModel for a parameter that no longer fits its state.
[[noreturn]] void refuse_changed(const std::string& name);
/// An optimizer that updates all masters.
struct EveryMaster {
  bool operator()(std::size_t) const { return true; }
};

/// Returns the gradient in the memory order and dtype of its parameter. Throws BadModel if it is
/// sparse.
at::Tensor dense_gradient(const at::Tensor& gradient, const at::Tensor& p, const std::string& name);
/// Returns the same for a fused operator. On a CPU the operator copies a gradient that is not
/// contiguous, and does not use the copy. It is given a view in one dimension, because an update
/// may not fail for lack of memory.
at::Tensor fused_gradient(const at::Tensor& gradient, const at::Tensor& p, const std::string& name);

}  // namespace ikebana::detail

namespace ikebana {
using detail::Bucket;
using detail::GroupNumbers;
using detail::Slot;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/bucket.ipp>
#endif
