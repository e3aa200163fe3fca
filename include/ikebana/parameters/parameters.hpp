#pragma once
// Defines the parameters of a trainer in one place, because shard, offload and precision each
// decide a part of what is stored and of what a unit computes with.
#include <ikebana/parameters/gathered_parameters.hpp>
#include <ikebana/parameters/in_place_parameters.hpp>
#include <ikebana/parameters/kept_parameters.hpp>

namespace ikebana {

namespace detail {
template <class Mechanisms>
struct parameters_of {
  using type = InPlaceParameters<Mechanisms>;
};
template <class Mechanisms>
  requires(Mechanisms::moves_parameters)
struct parameters_of<Mechanisms> {
  using type = std::conditional_t<Mechanisms::keeps_gathered, KeptParameters<Mechanisms>,
                                  GatheredParameters<Mechanisms>>;
};
}  // namespace detail

/// `InPlaceParameters` if no mechanism moves parameters; otherwise `KeptParameters` if gathered
/// parameters stay between steps, and `GatheredParameters` if they are released.
template <class Mechanisms>
using ParametersOf = typename detail::parameters_of<Mechanisms>::type;

}  // namespace ikebana
