#pragma once
// Defines the refusals of a `run` that is used as a model, or that is given something else than a
// module.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

/// The user's own code does not compile, and the compiler has reported where: there is nothing to
/// add.
struct Reported {};

template <class Model>
struct RunIsNoModel {
  static_assert(possible<"a run was used as " + quoted<Model>>,
                "ikebana: the first parameter of an objective is the run, and the second the "
                "model. Write `[](auto& run, auto& model, const Batch& batch) -> ikebana::Loss "
                "{ ... run(model, batch.input) ... }`.");
};
template <class Given>
struct RunTakesAModule {
  static_assert(possible<"run was given " + quoted<Given> + " in the place of a module">,
                "ikebana: `run` takes a module and then its arguments. Write run(block, x), or "
                "run(model, batch.input) in an objective, whose parameters are a run, the model "
                "and a batch, in this order.");
};

}  // namespace ikebana::refuse
