#pragma once
// Where a parameter rests and what a unit computes with: one mechanism for shard, offload,
// precision, prune and quantize, because all answer that question.
#include <ikebana/parameters/in_place_parameters.hpp>
#include <ikebana/parameters/gathered_parameters.hpp>

namespace ikebana {

/// `InPlaceParameters` where no mechanism overrides `gather`, else `GatheredParameters`.
template <class Mechanisms>
using ParametersOf =
    std::conditional_t<Mechanisms::moves_parameters, GatheredParameters<Mechanisms>, InPlaceParameters<Mechanisms>>;

}  // namespace ikebana
