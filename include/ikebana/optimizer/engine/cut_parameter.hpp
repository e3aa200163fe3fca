#pragma once
// Defines one parameter in an update: whole, or a slice that ranks update together.
#include <array>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/engine/low_precision_update.hpp>
#include <ikebana/optimizer/engine/scratch.hpp>

namespace ikebana::detail {

/// The update of one parameter of a bucket.
class ParameterUpdate {
 public:
  Scratch& scratch;
  const bool on_device;  ///< true: LibTorch's operators do the work, and the host reads nothing

  ParameterUpdate(Bucket& bucket, std::size_t index, Scratch& memory,
                  const std::optional<at::Tensor>& divisor, bool is_on_device,
                  bool is_divided = false)
      : scratch(memory),
        on_device(is_on_device),
        bucket_(bucket),
        index_(index),
        divisor_(divisor),
        divided_(is_divided) {}

  const at::Tensor& parameter() const { return bucket_.parameters[index_]; }
  const at::Tensor& state(std::size_t slot) const { return bucket_.state[slot][index_]; }
  double weight_decay() const { return bucket_.numbers.weight_decay; }
  const std::array<double, 2>& betas() const { return bucket_.numbers.betas; }
  double eps() const { return bucket_.numbers.eps; }
  double momentum() const { return bucket_.numbers.momentum; }

  /// Returns the gradient, which the first call divides in place, as fused operators do. The caller
  /// may overwrite it.
  const at::Tensor& gradient() const;
  bool is_divided() const { return divided_; }
  /// Returns the gradient for loops that divide each element by `divisor()` themselves.
  const at::Tensor& undivided() const { return bucket_.gradients[index_]; }
  double divisor() const { return divisor_ ? number(*divisor_) : 1; }

  double lr() const { return as_number(bucket_.lr, 0.0); }
  double step() const { return as_number(bucket_.steps[index_], 0.0); }
  /// Calls `f(lr, step)` with doubles if the host may read them, else with tensors.
  template <class F>
  void with_lr_and_step(const F& f) const {
    if (on_device) f(bucket_.lr, bucket_.steps[index_]);
    else f(lr(), step());
  }

 private:
  Bucket& bucket_;
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
  CutParameter(Bucket& bucket, std::size_t index, Slice slice, LowPrecisionUpdate& low_precision,
               Scratch& scratch, const std::optional<at::Tensor>& divisor, bool on_device)
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

  Bucket* bucket_;
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
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/cut_parameter.ipp>
#endif
