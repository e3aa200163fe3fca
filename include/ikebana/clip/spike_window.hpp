#pragma once
// Which of a step's numbers lie far above those of the last steps, computed where the weights are:
// the host reads nothing.
#include <array>
#include <ikebana/detail/number.hpp>
#include <ikebana/hooks.hpp>
#include <utility>

namespace ikebana::detail {

/// The loss and the norm of the last steps that were made, and the last steps that were skipped. A
/// step computes what follows from it in `judge` and `prepare`, and `commit` stores that.
class SpikeWindow {
 public:
  static constexpr std::int64_t kept_skips = 64;
  static constexpr NumberRange place_range{-1, 0x1p53, true, "a whole number from -1 on"};

  /// Memory for `window` steps, on a device.
  void begin(std::int64_t window, c10::Device device);
  /// `now`: the loss and the norm of this step. Whether one of them lies more than `zscore`
  /// standard deviations above the mean of the window, once that is full: one Bool. A deviation
  /// below a thousandth of the mean counts as that.
  const at::Tensor& judge(const at::Tensor& now, double zscore, const at::Tensor& rejected);
  /// One float: whether this step makes more than `max_skips` in a row.
  at::Tensor too_many(std::int64_t max_skips) const;
  /// Computes what the step changes: a step that is made enters the window, and a spike the list.
  void prepare(const at::Tensor& rejected, const std::optional<BatchPosition>& position);
  /// Allocates nothing.
  void commit() noexcept;
  void forget() noexcept { next_.clear(), now_.reset(); }
  bool has_judged() const noexcept { return now_.defined(); }

  /// How many spikes there were. Waits for the device.
  std::int64_t skipped() const { return static_cast<std::int64_t>(number(skipped_)); }
  /// The last of them, one row each, oldest first, on the host: the loss, the norm and their
  /// scores; and the step, and the epoch and the batch or -1. Waits for the device.
  std::pair<at::Tensor, at::Tensor> rows() const;

  void state(Archive& archive);

 private:
  std::array<at::Tensor*, 4> counts() { return {&recorded_, &in_row_, &skipped_, &steps_}; }
  /// A copy of `table`, in which this is the row of that number, counted around.
  static at::Tensor with_row(const at::Tensor& table, const at::Tensor& number,
                             const at::Tensor& row);
  at::Tensor place(const std::optional<BatchPosition>& position) const;

  at::Tensor values_;                               // a row of each step: its loss and its norm
  at::Tensor skips_, places_;                       // of the last skips, a row of each
  at::Tensor recorded_, in_row_, skipped_, steps_;  // Long
  at::Tensor now_, scores_, finite_, spikes_;       // of the present step
  Tensors next_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/spike_window.ipp>
#endif
