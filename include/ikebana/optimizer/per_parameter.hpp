#pragma once
// The base of optimizers for which LibTorch has no fused operator. They update one parameter after
// the other, and do what fused operators do inside: divide the gradient, and change nothing if the
// step is rejected.
#include <ikebana/optimizer/grouped.hpp>
#include <ikebana/optimizer/scratch.hpp>

namespace ikebana::detail {

/// The update of one parameter of a bucket.
class ParameterUpdate {
 public:
  Scratch& scratch;
  const bool on_device;  ///< true: LibTorch's operators do the work, and the host reads nothing

  ParameterUpdate(Bucket& bucket, std::size_t index, Scratch& memory,
                  const std::optional<at::Tensor>& divisor, bool is_on_device)
      : scratch(memory),
        on_device(is_on_device),
        bucket_(bucket),
        index_(index),
        divisor_(divisor) {}

  const at::Tensor& parameter() const { return bucket_.parameters[index_]; }
  const at::Tensor& state(std::size_t slot) const { return bucket_.state[slot][index_]; }
  double weight_decay() const { return bucket_.weight_decay; }

  /// The gradient, divided in place by the first call, as fused operators do. The caller may
  /// overwrite it.
  const at::Tensor& gradient() const {
    const at::Tensor& gradient = undivided();
    if (divisor_ && !divided_) elements_of(gradient).div_(*divisor_);
    divided_ = true;
    return gradient;
  }
  /// The gradient for loops that divide each element by `divisor()` themselves.
  const at::Tensor& undivided() const { return bucket_.gradients[index_]; }
  double divisor() const { return divisor_ ? number(*divisor_) : 1; }

  double lr() const { return as_number(bucket_.lr, 0.0); }
  double step() const { return as_number(bucket_.steps[index_], 0.0); }
  /// Calls `f(lr, step)` with doubles where the host may read them, else with tensors.
  template <class F>
  void with_lr_and_step(const F& f) const {
    if (on_device) f(bucket_.lr, bucket_.steps[index_]);
    else f(lr(), step());
  }
  /// Calls `f(tensor)` for every tensor that an update changes.
  template <class F>
  void for_each_changed(const F& f) const {
    f(parameter());
    for (const Tensors& slot : bucket_.state)
      if (slot[index_].defined()) f(slot[index_]);
  }

 private:
  Bucket& bucket_;
  std::size_t index_;
  const std::optional<at::Tensor>& divisor_;
  mutable bool divided_ = false;
};

/// Copies of tensors that an update changes, restored on the device if the step is rejected there;
/// the host does not know. Costs two passes over a parameter and its state. Not used on a CPU.
class Backup {
 public:
  void save(const at::Tensor& t, Scratch& scratch) {
    all_.emplace_back(t, scratch.like(t));
    all_.back().second.copy_(t);
  }
  void restore_if(const at::Tensor& found_inf) const {
    at::Tensor rejected = found_inf.ne(0);
    for (const auto& [changed, before] : all_) {
      at::Tensor out = changed;
      at::where_out(out, rejected, before, changed);
    }
  }

 private:
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 6> all_;
};

template <class Policy>
class PerParameterOptimizer : public GroupedOptimizer<Policy> {
 public:
  using GroupedOptimizer<Policy>::GroupedOptimizer;

  void abort() noexcept {
    GroupedOptimizer<Policy>::abort();
    scratch_.release();
  }

 protected:
  /// True where the update uses LibTorch's operators and reads nothing on the host.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !p.is_cpu(); }
  bool as_on_device_ = false;  ///< for tests: take the device's implementation on a CPU, too

  /// As `prepare_buckets`. `scratch_bytes(parameter, gradient)` is the scratch of one update.
  template <class Rate, class ScratchBytes, class... Convert>
  void prepare_each(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                    std::size_t state_slots, const ScratchBytes& scratch_bytes,
                    const Convert&... convert) {
    this->prepare_buckets(masters, gradients, rate, state_slots, convert...);
    this->each_bucket([&](Bucket& b) {
      this->check(is_real(b.parameters[0].scalar_type()), [&] {
        return std::string("a parameter has dtype ") +
               c10::toString(b.parameters[0].scalar_type()) +
               "; it must be Float, Double, BFloat16 or Half. Convert it, or freeze it: "
               "requires_grad_(false).";
      });
      std::int64_t max = 0;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        const at::Tensor p = this->low_precision_.operand(b.parameters[j]);
        const at::Tensor g = this->low_precision_.operand(b.gradients[j], b.parameters[j]);
        max = std::max(max, scratch_bytes(p, g) + backup_bytes(b, p, j));
      }
      scratch_.reserve(max, b.parameters[0].device());
    });
  }
  /// Calls `apply(update, found_inf)` for each parameter, unless the host knows that the step is
  /// rejected. If `found_inf` is defined, `apply` must change nothing where it is not 0.
  template <class Apply>
  void each_parameter(const StepGradients& gradients, const Apply& apply) noexcept {
    this->update_buckets(gradients, [&](Bucket& b, const auto& divisor, const auto& found_inf) {
      const bool is_on_device = on_device(b.parameters[0]);
      if (!is_on_device && found_inf && number(*found_inf) != 0) return;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        scratch_.clear();
        apply(ParameterUpdate(b, j, scratch_, divisor, is_on_device),
              is_on_device && found_inf ? *found_inf : at::Tensor());
      }
    });
    scratch_.release();
  }
  /// Calls `apply(update)` for each parameter, and restores what it changed if the step is
  /// rejected.
  template <class Apply>
  void update_each(const StepGradients& gradients, const Apply& apply) noexcept {
    each_parameter(gradients, [&](const ParameterUpdate& update, const at::Tensor& found_inf) {
      if (!found_inf.defined()) return apply(update);
      Backup backup;
      update.for_each_changed([&](const at::Tensor& t) { backup.save(t, update.scratch); });
      apply(update);
      backup.restore_if(found_inf);
    });
  }

 private:
  static bool is_real(at::ScalarType type) {
    return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
  }
  std::int64_t backup_bytes(const Bucket& b, const at::Tensor& p, std::size_t j) const {
    if (!on_device(p) || b.gradients[j].is_sparse()) return 0;
    std::int64_t bytes = Scratch::bytes(p.numel(), p.scalar_type());
    for (const Tensors& slot : b.state)
      if (slot[j].defined()) bytes += Scratch::bytes(slot[j].numel(), slot[j].scalar_type());
    return bytes;
  }

  Scratch scratch_;
};

}  // namespace ikebana::detail
