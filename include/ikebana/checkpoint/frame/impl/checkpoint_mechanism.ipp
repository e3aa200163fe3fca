#pragma once
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>
#include <ikebana/checkpoint/frame/unit_state.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void CheckpointMechanism::attach(c10::Device device, const UnitTable& table) {
  bridge::require_saved_tensor_hooks("Checkpoint", "Checkpoint");
  bridge::require_random_operators("Checkpoint");
  device_ = device;
  units_.clear();
  for (const Unit& unit : table.units())
    units_.push_back(make_shared_apart<const RecomputedUnit>(
        RecomputedUnit{unit.is_root() ? "the model" : unit.name, unit.module,
                       cudnn_dropout_in(*unit.module, device)}));
}

}  // namespace ikebana::detail
