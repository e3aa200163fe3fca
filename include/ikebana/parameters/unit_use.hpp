#pragma once
// Units that are used in a way in which they would not be trained, where gradients reach master
// weights only through `run`.
#include <ikebana/model.hpp>

namespace ikebana::detail {

/// For a leaf of the loss's graph that is no master weight: throws BadModel if it is a parameter of
/// this unit.
void refuse_use_outside_run(const Unit& unit, const at::Tensor& leaf);

[[noreturn]] void refuse_unused(const Unit& unit, const std::string& how_to_allow);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/unit_use.ipp>
#endif
