#pragma once
// What optimizers share for which LibTorch has no fused operator: one parameter after the other,
// each with what the fused operators do inside: the division, and nothing at all where the step is
// rejected.
#include <ikebana/optimizer/grouped.hpp>
#include <ikebana/optimizer/scratch.hpp>

namespace ikebana::detail {

/// One parameter of a bucket.
class ParameterUpdate {
 public:
  Scratch& scratch;
  const bool on_device;  ///< the host may not read its numbers

  ParameterUpdate(Bucket& bucket, std::size_t j, Scratch& space, const std::optional<at::Tensor>& divisor,
      bool is_on_device)
      : scratch(space), on_device(is_on_device), bucket_(bucket), j_(j), divisor_(divisor) {}

  const at::Tensor& parameter() const { return bucket_.parameters[j_]; }
  const at::Tensor& state(std::size_t slot) const { return bucket_.state[slot][j_]; }
  double weight_decay() const { return bucket_.weight_decay; }

  /// Divided in its place when first asked for, as the fused operators do; it may be overwritten.
  const at::Tensor& gradient() const {
    const at::Tensor& gradient = undivided();
    if (divisor_ && !divided_) elements_of(gradient).div_(*divisor_);
    divided_ = true;
    return gradient;
  }
  /// For loops that divide on their way, by `divisor`.
  const at::Tensor& undivided() const { return bucket_.gradients[j_]; }
  double divisor() const { return divisor_ ? number(*divisor_) : 1; }

  double lr() const { return as_number(bucket_.lr, 0.0); }
  double step() const { return as_number(bucket_.steps[j_], 0.0); }
  /// Calls `f(lr, step)` with doubles where the host may read them, else with tensors.
  template <class F>
  void with_numbers(const F& f) const {
    if (on_device) f(bucket_.lr, bucket_.steps[j_]);
    else f(lr(), step());
  }
  /// Calls `f(tensor)` for all that an update changes.
  template <class F>
  void each_changed(const F& f) const {
    f(parameter());
    for (const Tensors& slot : bucket_.state)
      if (slot[j_].defined()) f(slot[j_]);
  }

 private:
  Bucket& bucket_;
  std::size_t j_;
  const std::optional<at::Tensor>& divisor_;
  mutable bool divided_ = false;
};

/// On a device, whether a step is rejected is not known here: what it may not change is kept aside
/// and put back there. Costs two passes over a parameter and its state; on a CPU nothing.
class Backup {
 public:
  void keep(const at::Tensor& t, Scratch& scratch) {
    all_.emplace_back(t, scratch.like(t));
    all_.back().second.copy_(t);
  }
  void put_back(const at::Tensor& found_inf) const {
    at::Tensor rejected = found_inf.ne(0);
    for (const auto& [now, before] : all_) {
      at::Tensor out = now;
      at::where_out(out, rejected, before, now);
    }
  }

 private:
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 6> all_;
};

template <class Policy>
class EachParameter : public Grouped<Policy> {
 public:
  using Grouped<Policy>::Grouped;

  void abort() noexcept {
    Grouped<Policy>::abort();
    scratch_.release();
  }

 protected:
  /// True where LibTorch's operators of any device do the work, and the host may read nothing.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !p.is_cpu(); }
  bool as_on_device_ = false;  ///< a test's: on a CPU, too

  /// As `prepare_buckets`; `need(parameter, gradient)`: how many bytes of scratch it takes.
  template <class Rate, class Need, class... Take>
  void prepare_each(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                    std::size_t kinds, const Need& need, const Take&... take) {
    this->prepare_buckets(masters, gradients, rate, kinds, take...);
    this->each_bucket([&](Bucket& b) {
      this->check(is_real(b.parameters[0].scalar_type()),
                  "a parameter's numbers are neither Float, Double, BFloat16 nor Half. Convert it, "
                  "or freeze it: requires_grad_(false).");
      std::int64_t max = 0;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        const at::Tensor p = this->low_precision_.exact(b.parameters[j]);
        const at::Tensor g = this->low_precision_.exact(b.gradients[j], b.parameters[j]);
        max = std::max(max, need(p, g) + backup_bytes(b, p, j));
      }
      scratch_.reserve(max, b.parameters[0].device());
    });
  }
  /// Calls `update(one, found_inf)` for each parameter, unless the step is known to be rejected.
  /// Where `found_inf` is defined, `update` obeys it.
  template <class Update>
  void each_parameter(const StepGradients& gradients, const Update& update) noexcept {
    this->update_buckets(gradients, [&](Bucket& b, const auto& divisor, const auto& found_inf) {
      const bool is_on_device = on_device(b.parameters[0]);
      if (!is_on_device && found_inf && number(*found_inf) != 0) return;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        scratch_.clear();
        update(ParameterUpdate(b, j, scratch_, divisor, is_on_device),
               is_on_device && found_inf ? *found_inf : at::Tensor());
      }
    });
    scratch_.release();
  }
  /// The same for an `update(one)` that does not obey: what it did is taken back.
  template <class Update>
  void update_each(const StepGradients& gradients, const Update& update) noexcept {
    each_parameter(gradients, [&](const ParameterUpdate& one, const at::Tensor& found_inf) {
      if (!found_inf.defined()) return update(one);
      Backup kept;
      one.each_changed([&](const at::Tensor& t) { kept.keep(t, one.scratch); });
      update(one);
      kept.put_back(found_inf);
    });
  }

 private:
  static bool is_real(at::ScalarType type) {
    return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
  }
  std::int64_t backup_bytes(const Bucket& b, const at::Tensor& p, std::size_t j) const {
    if (!on_device(p) || b.gradients[j].is_sparse()) return 0;
    std::int64_t all = Scratch::bytes(p.numel(), p.scalar_type());
    for (const Tensors& slot : b.state)
      if (slot[j].defined()) all += Scratch::bytes(slot[j].numel(), slot[j].scalar_type());
    return all;
  }

  Scratch scratch_;
};

}  // namespace ikebana::detail
