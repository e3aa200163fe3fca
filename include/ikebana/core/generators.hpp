#pragma once
// The random generators of a saved state: the CPU's and that of the trainer's device.
#include <ikebana/state/archive.hpp>

namespace ikebana::detail {

/// Saves, checks or loads the generators, so that random numbers continue where they were. A state
/// that was saved on another type of device has none of this one, and random numbers then differ
/// anyway: the device's generator stays as it is, with a warning.
void save_generators(Archive& archive, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/generators.ipp>
#endif
