#pragma once
// Moves a model to a device, or leaves all of it where it was.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Moves a model to a device. If that fails, all of it stays where it was. Throws BadValue for a
/// device that does not exist.
void move(torch::nn::Module& module, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/move_model.ipp>
#endif
