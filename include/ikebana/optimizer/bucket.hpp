#pragma once
// What one call of an optimizer updates. Fused operators look at the memory of their lists and at
// nothing else, so shapes, strides and types are compared here first.
#include <functional>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Parameters that are updated together, with their gradients and state.
struct Bucket {
  std::size_t group = 0;    ///< index among the groups; their number: none
  bool first_step = false;  ///< of these parameters, or of a slot of their state
  double weight_decay = 0;
  at::Tensor lr = {};  ///< one number where the parameters live: a captured step may change it
  Tensors parameters = {}, gradients = {}, steps = {};
  std::vector<Tensors> state = {};      ///< by slot, then by parameter
  std::vector<std::size_t> indices = {};  ///< masters
};

/// As many elements in the same order in memory, which is all that a fused operator sees.
inline bool same_order(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && a.device() == b.device() &&
         ((a.is_contiguous() && b.is_contiguous()) ||
          (a.sizes() == b.sizes() && a.strides() == b.strides()));
}
inline bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && same_order(a, b);
}

/// One tensor of a parameter's state, made when its first gradient arrives.
struct Slot {
  using Make = std::function<at::Tensor(const at::Tensor& parameter)>;
  using Fits = bool (*)(const at::Tensor& state, const at::Tensor& parameter);

  const char* name;
  Make make = {};      ///< empty: zeros like the parameter; undefined from it: has none of this
  Fits fits = &alike;  ///< false where the parameter changed since

  at::Tensor operator()(const at::Tensor& p) const {
    return make ? make(p.detach()) : at::zeros_like(p.detach());
  }
};

/// A gradient in the memory order of its parameter. Throws BadModel for a sparse one.
inline at::Tensor conform(const at::Tensor& gradient, const at::Tensor& p,
                          const std::string& name) {
  if (gradient.layout() != at::kStrided)
    throw BadModel("optimizer: the gradient of `" + name +
                   "` is sparse, which this optimizer does not take. Write SparseAdam, which "
                   "updates such parameters by their rows, or make the embedding with "
                   "sparse(false).");
  return alike(gradient, p) ? gradient : at::empty_like(p.detach()).copy_(gradient);
}

}  // namespace ikebana::detail
