#pragma once
// Where a parameter rests and what a unit computes with: one mechanism for shard, offload,
// precision, prune and quantize, because all answer that question.
#include <ikebana/parameters/resident.hpp>
#include <ikebana/parameters/travelling.hpp>

namespace ikebana {

/// `Resident` where no mechanism overrides `gather`, else `Travelling`.
template <class Mechanisms>
using ParametersOf =
    std::conditional_t<Mechanisms::moves_parameters, Travelling<Mechanisms>, Resident<Mechanisms>>;

}  // namespace ikebana
