#pragma once
// Defines one parameter in an update: whole, or a slice that ranks update together.
#include <array>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/engine/low_precision_update.hpp>
#include <ikebana/optimizer/engine/scratch.hpp>

namespace ikebana::detail {

/// The update of one parameter, for the function that computes it.
class ParameterUpdate {
 public:
  Scratch& scratch;      ///< with as many bytes as the optimizer asked for in `prepare_each`
  const bool on_device;  ///< true: LibTorch's operators do the work, and the host reads nothing

  ParameterUpdate(const Bucket& bucket, std::size_t index, Scratch& memory,
                  const std::optional<at::Tensor>& divisor, bool is_on_device,
                  bool is_divided = false)
      : scratch(memory),
        on_device(is_on_device),
        bucket_(bucket),
        index_(index),
        divisor_(divisor),
        divided_(is_divided) {}

  /// The parameter, or FP32 scratch with its values if it is rounded afterwards.
  const at::Tensor& parameter() const { return bucket_.parameters[index_]; }
  /// Returns a tensor of the state, in the order of the optimizer's slots.
  const at::Tensor& state(std::size_t slot) const { return bucket_.state[slot][index_]; }
  double weight_decay() const { return bucket_.numbers.weight_decay; }  ///< its group's
  double eps() const { return bucket_.numbers.eps; }                    ///< its group's
  /// The betas of its group in this step: the first one follows the schedule.
  const std::array<double, 2>& betas() const { return bucket_.numbers.betas; }
  /// The momentum of its group in this step.
  double momentum() const { return bucket_.numbers.momentum; }

  /// Returns the gradient, which the first call divides in place, as fused operators do. The caller
  /// may overwrite it.
  const at::Tensor& gradient() const;
  bool is_divided() const { return divided_; }  ///< true: `gradient` was called
  /// The gradient for loops that divide each element by `divisor()` themselves.
  const at::Tensor& undivided() const { return bucket_.gradients[index_]; }
  /// The number by which gradients are to be divided. Reads it: only if not `on_device`.
  double divisor() const { return divisor_ ? number(*divisor_) : 1; }

  double lr() const { return as_number(bucket_.lr, 0.0); }  ///< reads it: only if not `on_device`
  /// The step count, with this step. Reads it: only if not `on_device`.
  double step() const { return as_number(bucket_.steps[index_], 0.0); }
  /// Calls `f(lr, step)` with doubles if the host may read them, else with tensors.
  template <class F>
  void with_lr_and_step(const F& f) const {
    if (on_device) f(bucket_.lr, bucket_.steps[index_]);
    else f(lr(), step());
  }

 private:
  const Bucket& bucket_;
  std::size_t index_;
  const std::optional<at::Tensor>& divisor_;
  mutable bool divided_;
};

/// A function that computes an update.
using ApplyUpdate = c10::function_ref<void(const ParameterUpdate&)>;

/// A parameter that is cut among ranks. An update visits it several times, and exchanges numbers
/// with the other ranks in between. Each visit may change the state, only `write` may change the
/// parameter, and no visit may change the gradient, which the first visit divides. A rank without
/// rows of it makes the same visits.
class CutParameter {
 public:
  CutParameter(MasterBucket& bucket, std::size_t index, Slice slice,
               LowPrecisionUpdate& low_precision, Scratch& scratch,
               const std::optional<at::Tensor>& divisor, bool on_device)
      : bucket_(&bucket),
        place_(index),
        slice_(std::move(slice)),
        low_precision_(&low_precision),
        scratch_(&scratch),
        divisor_(&divisor),
        on_device_(on_device) {}

  std::size_t index() const { return bucket_->indices[place_]; }  ///< its index among the masters
  const Slice& slice() const { return slice_; }                   ///< the rows of this rank
  /// Returns a tensor of the state, in the order of the optimizer's slots.
  const at::Tensor& state(std::size_t slot) const { return bucket_->state[slot][place_]; }
  bool on_device() const { return on_device_; }        ///< true: the host reads nothing
  double eps() const { return bucket_->numbers.eps; }  ///< the `eps` of its group
  /// Returns the options of the tensors with which the update computes: Float if it is rounded to
  /// BF16 afterwards.
  at::TensorOptions options() const;
  /// Calls `f(update)`, which must not change the parameter.
  void read(ApplyUpdate f) { visit(/*writes=*/false, f); }
  /// Calls `f(update)`, which may change the parameter.
  void write(ApplyUpdate f) { visit(/*writes=*/true, f); }

 private:
  void visit(bool writes, ApplyUpdate f);
  bool is_rounded() const { return low_precision_->is_rounded(bucket_->parameters[place_]); }

  MasterBucket* bucket_;
  std::size_t place_;
  Slice slice_;
  LowPrecisionUpdate* low_precision_;
  Scratch* scratch_;
  const std::optional<at::Tensor>* divisor_;
  bool on_device_, divided_ = false;
};

}  // namespace ikebana::detail

namespace ikebana {
using detail::CutParameter;
using detail::ParameterUpdate;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/parameter_update.ipp>
#endif
