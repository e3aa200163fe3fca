#pragma once
// Defines the policy SkipSpikes and its mechanism.
#include <array>
#include <ikebana/clip/total_norm.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/non_finite.hpp>
#include <utility>

namespace ikebana {

/// Skips a step whose loss, or whose norm of all gradients, lies more than `zscore` standard
/// deviations above the mean of the last `window` steps that were made, as FP16 skips an overflow:
/// no parameter, moment or average changes, and the schedule goes on. The first `window` steps are
/// only observed; neither a step that is skipped nor a number that is not finite enters the window.
/// A standard deviation (of the sample) below a thousandth of the mean counts as that. More than
/// `max_skips` spikes in a row throw NonFinite. A norm that is not finite is an error, or with
/// `error_if_nonfinite = false` a step without an update, as with GradNorm. The norm is that of the
/// gradients as the policies before this one left them. Cost: one pass over the gradients, nothing
/// if the recipe has ClipGradNorm or GradNorm; about 30 operators on `window` numbers, on the
/// device; no wait for it. PaLM (arXiv:2204.02311, section 5.1) skips the batches around spikes by
/// hand.
struct SkipSpikes {
  std::int64_t window = 128;       ///< steps that a spike is compared with
  double zscore = 6;               ///< standard deviations above the mean that are allowed
  std::int64_t max_skips = 20;     ///< spikes in a row that are allowed
  bool error_if_nonfinite = true;  ///< false: a step whose norm is not finite is skipped
};

/// A step that SkipSpikes has skipped.
struct Spike {
  std::int64_t step = 0;   ///< steps before it, as Report::step
  double loss = 0;         ///< its loss
  double norm = 0;         ///< its norm of all gradients
  double loss_zscore = 0;  ///< standard deviations of the loss above the mean of the window
  double norm_zscore = 0;  ///< standard deviations of the norm above the mean of the window
  std::optional<BatchPosition> position = {};  ///< the position of its batch, if `fit` or the
                                               ///< caller knew it
};

namespace detail {

/// The loss and the norm of the last steps that were made, and the last steps that were skipped.
/// `judge` and `prepare` compute how a step changes them, and `commit` stores that.
class SpikeWindow {
 public:
  static constexpr std::int64_t kept_skips = 64;
  static constexpr NumberRange place_range{-1, 0x1p53, true, "a whole number from -1 on"};

  /// Allocates memory for `window` steps, on a device.
  void begin(std::int64_t window, c10::Device device);
  /// `now` has the loss and the norm of this step. Returns one Bool, which is true if one of them
  /// lies more than `zscore` standard deviations above the mean of the window and the window is
  /// full. A deviation below a thousandth of the mean counts as a thousandth of the mean.
  const at::Tensor& judge(const at::Tensor& now, double zscore, const at::Tensor& rejected);
  /// Returns one float: not 0 if this step makes more than `max_skips` in a row.
  at::Tensor too_many(std::int64_t max_skips) const;
  /// Computes the change by this step: a step that is made enters the window, a spike enters the
  /// list.
  void prepare(const at::Tensor& rejected, const std::optional<BatchPosition>& position);
  /// Allocates nothing.
  void commit() noexcept;
  void forget() noexcept { next_.clear(), now_.reset(); }
  bool has_judged() const noexcept { return now_.defined(); }

  /// Returns the number of spikes so far. Waits for the device.
  std::int64_t skipped() const { return static_cast<std::int64_t>(number(skipped_)); }
  /// Returns the last spikes, one row each, oldest first, on the host: the loss, the norm and their
  /// scores; and the step, the epoch and the batch, or -1 if these are not known. Waits for the
  /// device.
  std::pair<at::Tensor, at::Tensor> rows() const;

  void state(Archive& archive);

 private:
  std::array<at::Tensor*, 4> counts() { return {&recorded_, &in_row_, &skipped_, &steps_}; }
  /// Returns a copy of `table` in which `row` replaces the row of index `number` modulo the length.
  static at::Tensor with_row(const at::Tensor& table, const at::Tensor& number,
                             const at::Tensor& row);
  at::Tensor place(const std::optional<BatchPosition>& position) const;

  at::Tensor values_;                               // a row of each step: its loss and its norm
  at::Tensor skips_, places_;                       // the data of the last skips, one row per skip
  at::Tensor recorded_, in_row_, skipped_, steps_;  // Long
  at::Tensor now_, scores_, finite_, spikes_;       // the values of the present step
  Tensors next_;
};

}  // namespace detail

template <>
struct Mechanism<SkipSpikes> : detail::TotalNorm<SkipSpikes> {
  explicit Mechanism(SkipSpikes v) : TotalNorm(v, "SkipSpikes"), window_size_(v.window) { check(); }

  void begin(const Masters& masters);
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    check();
    this->compute_norm(gradients, ranks);
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    const at::Tensor norm = this->seen_norm();
    TotalNorm::accept(gradients, loss, ranks, deferred);
    if (!norm.defined()) return;
    detail::settle_finite_checks(gradients, deferred);
    const at::Tensor mean = gradients.where_values_are(loss.mean().detach());
    const at::Tensor now = at::stack({mean.to(at::kDouble), norm.to(at::kDouble)});
    gradients.reject(window_.judge(now, values.zscore, gradients.found_inf).to(at::kFloat));
    deferred.expect_zero(window_.too_many(values.max_skips), [max = values.max_skips] {
      throw NonFinite("SkipSpikes: more than " + std::to_string(max) +
                      " steps in a row had a loss or a norm far above that of the steps before "
                      "them, so this is no spike; nothing was updated. Load an earlier state and "
                      "lower the learning rate, or skip the batches that skips() lists; if the "
                      "data changes here for good, raise zscore.");
    });
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients& gradients, const Rate&) {
    if (window_.has_judged()) window_.prepare(gradients.found_inf, gradients.position);
  }
  void end_step(const StepGradients&, Report&) noexcept { window_.commit(); }
  void abort() noexcept { window_.forget(); }

  /// Returns the number of steps that were skipped as spikes. Waits for the device.
  std::int64_t skipped() const { return window_.skipped(); }
  /// Returns the last 64 skipped steps, oldest first. Waits for the device.
  std::vector<Spike> skips() const;
  std::string describe() const;
  void state(Archive& archive, const Masters&) { window_.state(archive); }

 private:
  void check() const;

  std::int64_t window_size_;
  detail::SpikeWindow window_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/skip_spikes.ipp>
#endif
