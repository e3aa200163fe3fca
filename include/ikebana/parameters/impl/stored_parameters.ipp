#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/parameters/stored_parameters.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_use_outside_run(const Unit& unit, const at::Tensor& leaf) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (!unit.parameters[i].is_same(leaf)) continue;
    const std::string used = "step: the loss uses `" + unit.names[i] + "` outside of ";
    if (unit.is_root())
      throw BadModel(used + "the loss function, so it is not trained. Compute all of it there.");
    throw BadModel(used + "run, so unit `" + unit.name +
                   "` is not trained. Write run(unit, x) instead of unit(x). Register a parameter "
                   "that is also used elsewhere in the model itself, too.");
  }
}

IKEBANA_INLINE void refuse_unused(const Unit& unit, const std::string& how_to_allow) {
  throw BadModel("step: no microbatch ran unit `" + unit.name +
                 "`, so it is not trained. Write run(unit, x) in the loss instead of unit(x)." +
                 how_to_allow);
}

}  // namespace ikebana::detail
