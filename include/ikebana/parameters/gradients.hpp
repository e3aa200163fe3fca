#pragma once
// Where a backward pass starts, and what is left of all of them for the update.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana {

/// The sums of one microbatch, and the gradient that each starts backward with.
struct Roots {
  std::vector<at::Tensor> sums, seeds;

  void clear() noexcept { sums.clear(), seeds.clear(); }
};

/// The numbers of a gradient; of a sparse one, those of its rows. They share its memory.
inline at::Tensor elements_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

/// Gradients of the masters that got one; sparse ones are coalesced. Nothing is multiplied into
/// them: what they are still to be divided by (loss scale, late count, clipping) gathers in
/// `divisor`, and the update divides once.
struct StepGradients {
  std::vector<std::size_t> indices;  ///< index of each among the trainer's masters
  std::vector<at::Tensor> values;  ///< in the order of `indices`
  at::Tensor divisor;              ///< one float on the device; undefined: 1
  at::Tensor norm;                 ///< over all ranks, of values / divisor; undefined: nobody asked
  bool loss_is_scaled = false;     ///< values that are not finite are the loss scale's to handle
  at::Tensor found_inf;            ///< one float, 1: do not update; undefined: nobody asked

  /// Values are from now on to be divided by `d` as well.
  void divide(const at::Tensor& d) { divisor = divisor.defined() ? divisor * d : d; }
  /// The update is not to be made where `flag` (one float) is not 0.
  void reject(const at::Tensor& flag) {
    found_inf = found_inf.defined() ? at::maximum(found_inf, flag) : flag;
  }
};

}  // namespace ikebana
