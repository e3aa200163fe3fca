#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/in_place_parameters.hpp>

namespace ikebana::detail {

IKEBANA_INLINE InPlaceMasters::InPlaceMasters() = default;
IKEBANA_INLINE InPlaceMasters::~InPlaceMasters() = default;

IKEBANA_INLINE void InPlaceMasters::take(const UnitTable& table, UpdateRounding* rounding,
                                         StateStorage* storage) {
  for (const Unit& unit : table.units())
    for (std::size_t i = 0; i < unit.names.size(); ++i)
      masters_.add(unit.names[i], unit.parameters[i], whole_slice(unit.parameters[i], unit.index),
                   unit.other_names[i]);
  masters_.rounding = rounding;
  masters_.storage = storage;
  leaves_.set_masters(masters_.values);
}

IKEBANA_INLINE void InPlaceMasters::state(Archive& archive) {
  archive.begin_model();
  for (std::size_t i = 0; i < masters_.values.size(); ++i)
    archive.rows_of(masters_.slices[i],
                    [&] { archive.tensor(masters_.names[i], masters_.values[i]); });
}

}  // namespace ikebana::detail
