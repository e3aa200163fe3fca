#pragma once
// The reports of steps, evaluations and epochs. A step's values stay on the device until they are
// read; reading waits for the device.
#include <array>
#include <bit>
#include <cstdint>
#include <ikebana/batch/position.hpp>
#include <ikebana/grammar/refuse_use.hpp>
#include <ikebana/loss.hpp>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

namespace detail {

/// The value of a field for a measurement that was not given: a NaN, because 0 would look like a
/// measurement. Its bits differ from other NaNs, like R's NA, so that a loss which is NaN is not
/// mistaken for it.
inline constexpr double not_given = std::bit_cast<double>(std::uint64_t{0x7ff8006e6f6e6500});

/// Returns whether a number was given. The result of a computation with `not_given` is not given
/// either.
bool is_given(double number);

}  // namespace detail

/// The bytes that Offload moved in a step, and the number of copies; directions are seen from the
/// device.
struct OffloadTraffic {
  std::int64_t activations_out = 0;   ///< activations, after their forward
  std::int64_t activations_back = 0;  ///< activations, for their backward
  std::int64_t parameters_back = 0;   ///< master weights, to what units compute with
  std::int64_t gradients_out = 0;     ///< gradients, to the optimizer
  std::int64_t copies_out = 0;        ///< copies of all these
  std::int64_t copies_back = 0;       ///< copies of all these
  std::int64_t peak_stored = 0;       ///< the most bytes of activations that lay elsewhere at once
};

/// The seconds of one step, and of the time before it, by what they were spent on. Each moment is
/// in one field. Observe<Phases> measures them.
struct PhaseSeconds {
  double data = 0;       ///< waiting for the loader, and moving the batch to the device
  double forward = 0;    ///< the loss of all microbatches
  double backward = 0;   ///< their gradients
  double optimizer = 0;  ///< all that follows the last backward
  double gather = 0;     ///< gathering parameters: casts, copies, what other ranks send
  double reduce = 0;     ///< reducing gradients over ranks
  double offload = 0;    ///< moving tensors out of the device and back
  double recompute = 0;  ///< computing checkpointed units again
  double other = 0;      ///< the rest of the step
  double between = 0;    ///< from the step before to this one, without waiting for the loader
};

namespace detail {
/// A field of PhaseSeconds, and its name.
struct PhaseField {
  const char* name;
  double PhaseSeconds::* seconds;
};
inline constexpr std::array<PhaseField, 10> phase_fields = {{
    {"data", &PhaseSeconds::data},
    {"forward", &PhaseSeconds::forward},
    {"backward", &PhaseSeconds::backward},
    {"optimizer", &PhaseSeconds::optimizer},
    {"gather", &PhaseSeconds::gather},
    {"reduce", &PhaseSeconds::reduce},
    {"offload", &PhaseSeconds::offload},
    {"recompute", &PhaseSeconds::recompute},
    {"other", &PhaseSeconds::other},
    {"between", &PhaseSeconds::between},
}};
}  // namespace detail

/// The work of one step, and its time. Observe<Throughput> measures it.
struct StepThroughput {
  Count items = {};    ///< the items that the loss was summed over, on all ranks
  double seconds = 0;  ///< the time of the step, and of waiting for its batch
  double flops = 0;    ///< floating-point operations of products on this rank, without recomputes
  double recomputed = 0;             ///< the same, in recomputes
  double bound = detail::not_given;  ///< the most per second, as `matmul_bound` measures it

  /// Returns the items per second. Waits for the device if their count is there.
  double items_per_second() const { return items.value() / seconds; }
  /// Returns the floating-point operations per second.
  double flops_per_second() const { return flops / seconds; }
  /// Returns the share of what the machine can multiply, from 0 to 1: the model FLOP/s utilization.
  double share_of_bound() const { return flops_per_second() / bound; }
};

struct MemoryReport;  // observe/memory_report.hpp

/// The report of one step. It has values of its own: later steps do not change them.
class Report {
 public:
  /// Returns the value that was minimised: every term's scale * sum / count. Waits for the device.
  /// Throws NonFinite if it is not finite and the precision has no loss scale to skip such a step
  /// with.
  double loss() const;
  /// Returns the loss as a one-element tensor on the model's device. Does not wait for anything,
  /// and does not check anything.
  at::Tensor mean() const { return value.mean(); }
  /// Returns one named term of the loss, without its scale. Throws Error for a name that no term
  /// has.
  double term(const std::string& name) const;
  /// Returns the norm of all gradients before clipping, or no value if no policy computes it.
  std::optional<double> grad_norm() const;
  /// Returns the number of items that the loss was summed over, in all microbatches.
  double count() const { return value.parts.empty() ? 0 : value.parts[0].count.value(); }
  /// It is refused. Write `loss()`.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  operator Number() const {
    return (void)sizeof(refuse::ReportIsNoNumber<Report, Number>), Number();
  }
  /// Returns true if the update was skipped, because of an FP16 overflow, a norm that is not
  /// finite, or a spike.
  bool skipped() const { return found_inf.defined() && detail::number(found_inf) != 0; }

  std::int64_t step = 0;                     ///< steps before this one
  std::int64_t microbatches = 0;             ///< forward and backward passes
  double learning_rate = detail::not_given;  ///< the rate of the parameters without a group
  /// The rate of each parameter group, in their order, and then the rate of the parameters without
  /// a group. For two optimizers in one (Muon, Combined), all rates of the first come before the
  /// rates of the second.
  c10::SmallVector<double, 4> learning_rates = {};
  std::optional<BatchPosition> position;   ///< the position of the batch, if `fit` or the caller
                                           ///< knows it
  double seconds = detail::not_given;      ///< host time of the step
  std::optional<std::int64_t> peak_bytes;  ///< the peak, under Observe<Memory>
  /// Under Observe<Memory> with one of its fields; otherwise null.
  std::shared_ptr<const MemoryReport> memory = {};
  /// The times of this step, under Observe<Phases> on a CPU. On an accelerator they are known only
  /// later, to the policy's `summary()`.
  std::optional<PhaseSeconds> phases = {};
  std::optional<StepThroughput> throughput = {};  ///< the throughput, under Observe<Throughput>
  std::optional<std::int64_t> undone;       ///< under Accumulate<Fit<>>: the attempts of this step
                                            ///< before the one that fitted into memory
  std::optional<OffloadTraffic> offloaded;  ///< the traffic, under Offload
  at::Tensor outputs;                       ///< Loss::outputs of all microbatches, in row order

  // The step sets these.
  LossValue value;             ///< the loss, undivided; `loss()` reads it
  at::Tensor norm;             ///< the norm of all gradients, on the device; `grad_norm()` reads it
  at::Tensor found_inf;        ///< a flag on the device, which is 1 if the step was skipped;
                               ///< `skipped()` reads it
  bool must_be_finite = true;  ///< whether `loss()` throws if it is not finite
};

std::ostream& operator<<(std::ostream& out, const Report& report);

namespace detail {
/// Writes a throughput as `12.3 k items/s, 45.6 GFLOP/s (51.2 % of the matmul bound)`.
std::string throughput_text(const StepThroughput& step);
}  // namespace detail

/// The result of `Trainer::evaluate`. If it is made by hand, its loss is NaN until it is set.
struct Evaluation {
  double loss = detail::not_given;  ///< sum over terms of scale * sum / count, over all batches
  double count = 0;                 ///< items of the first term
  /// The values of the metrics, in the order in which these were given.
  std::vector<std::pair<std::string, double>> metrics = {};

  /// Returns the value of a metric by its name. Throws Error if no metric has that name.
  double operator[](const std::string& name) const;
  /// It is refused. Write `.loss`.
  template <class Number>
    requires std::is_floating_point_v<Number>  // for integers, x["name"] would be ambiguous
  operator Number() const {
    return (void)sizeof(refuse::ReportIsNoNumber<Evaluation, Number>), Number();
  }
};

std::ostream& operator<<(std::ostream& out, const Evaluation& evaluation);

/// One pass of `fit` over the data, or of a loop of your own, which gives it to
/// `Trainer::end_epoch`. What is left out there is NaN: a 0 would look like a measurement.
struct Epoch {
  std::int64_t epoch = 0;           ///< from 0
  std::int64_t steps = 0;           ///< updates that were tried
  double loss = detail::not_given;  ///< mean of the steps' losses
  /// Seconds of training, without validation; NaN for an epoch before a resume.
  double seconds = detail::not_given;
  /// The evaluation of `FitOptions::validate` at its end; empty with `validate_every`, whose
  /// evaluations are `History::validations`.
  std::optional<Evaluation> validation = {};
  std::int64_t last_step = -1;  ///< its last step, as `Report::step`; -1: not known
  /// The values of `FitOptions::train_metrics` over the steps of this epoch, in the order in which
  /// the metrics were given. The outputs are the training's: in training mode, each with the
  /// weights before its update.
  std::vector<std::pair<std::string, double>> train_metrics = {};

  /// Returns one of `train_metrics` by its name. Throws Error if there is none of that name.
  double train_metric(const std::string& name) const;
};
/// Writes one line: the epoch, its loss, `train_<metric>` for each of its metrics, `val_loss` and
/// `val_<metric>` with a validation, and its seconds, if they are known.
std::ostream& operator<<(std::ostream& out, const Epoch& epoch);

/// A validation of `fit` between two steps, by `FitOptions::validate_every`.
struct Validation : Evaluation {
  std::int64_t step = 0;   ///< the step that it follows, as `Report::step`
  std::int64_t epoch = 0;  ///< the epoch within which it is, from 0
};
/// The epochs of `fit`, including those before a resume.
struct History : std::vector<Epoch> {
  bool stopped = false;     ///< ended early, by `FitOptions::stop`, early stopping or SIGTERM
  bool terminated = false;  ///< ended early by SIGTERM
  /// The updates that were made before it went on from a saved state; empty if it began without
  /// one.
  std::optional<std::int64_t> resumed_at = {};
  /// The validations by `FitOptions::validate_every`, including those before a resume.
  std::vector<Validation> validations = {};
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/report.ipp>
#endif
