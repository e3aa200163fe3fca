#pragma once
// What is stored and what a unit computes with: one mechanism for shard, offload, precision, prune
// and quantize, because each of them decides a part of it.
#include <ikebana/parameters/gathered_parameters.hpp>
#include <ikebana/parameters/in_place_parameters.hpp>

namespace ikebana {

/// `InPlaceParameters` where no mechanism overrides `gather`, else `GatheredParameters`.
template <class Mechanisms>
using ParametersOf =
    std::conditional_t<Mechanisms::moves_parameters, GatheredParameters<Mechanisms>,
                       InPlaceParameters<Mechanisms>>;

}  // namespace ikebana
