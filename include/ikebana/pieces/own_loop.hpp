#pragma once
// The arguments of hooks, in a loop without a trainer.
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

/// The parameters of a module, in the order of `parameters()`; one that has several names once.
Masters masters_of(const torch::nn::Module& module);
/// The device of the first parameter; the CPU for a module without parameters.
c10::Device device_of(const torch::nn::Module& module);
/// Divides the gradients by what they are still to be divided by. `parameters`, from which they
/// were collected, get the coalesced copies that `gradients` has made of sparse ones.
void finish_gradients(StepGradients& gradients, const Tensors& parameters);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/pieces/impl/own_loop.ipp>
#endif
