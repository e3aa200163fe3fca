#pragma once
// Clipping in a loop without a trainer.
#include <ikebana/clip/clip_grad_norm.hpp>
#include <ikebana/clip/clip_grad_value.hpp>

namespace ikebana::pieces {

/// Clips the gradients of these parameters in place, to the bits that the policy gives them in a
/// recipe, sparse ones included. Returns their norm before clipping; an undefined tensor if there
/// is no gradient. Throws NonFinite if the norm is not finite, and changes no gradient then; this
/// check waits for the device. With `error_if_nonfinite = false` it waits for nothing, and the
/// gradients have the bits that they have after torch.nn.utils.clip_grad_norm_: NaN or 0.
at::Tensor clip_gradients(const Tensors& parameters, const ClipGradNorm& clip);
/// Clamps the elements of the gradients of these parameters in place.
void clip_gradients(const Tensors& parameters, const ClipGradValue& clip);

}  // namespace ikebana::pieces

#ifndef IKEBANA_COMPILED
#include <ikebana/pieces/impl/clip_gradients.ipp>
#endif
