#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/estimate/marks.hpp>
#include <ikebana/fake/fake_tensors.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<detail::MarkMemory>::attach(c10::Device device,
                                                          const UnitTable& table) {
  table_ = &table;
  if (detail::without_values()) check_is_new(table);
  if (!device.is_cpu()) marks().counter = bridge::MemoryCounter(device), marks().before = 0;
}

IKEBANA_INLINE void Mechanism<detail::MarkMemory>::after_unit_backward(const Unit& unit) {
  enter();
  if (unit_ == unit.index) unit_ = 0;
}

IKEBANA_INLINE void Mechanism<detail::MarkMemory>::check_is_new(const UnitTable& table) {
  for (const Unit& unit : table.units())
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      if (!bridge::is_counted(unit.parameters[i]))
        throw BadModel("estimate: `" + unit.names[i] +
                       "` was there before. Let the maker make the model: estimate<Recipe>([&] { "
                       "return GPT(config); }, ...).");
}

IKEBANA_INLINE void Mechanism<detail::MarkMemory>::enter() {
  marks().mark(phase_, unit_);
  marks().gathered = std::max(marks().gathered, gathered_now());
}

IKEBANA_INLINE void Mechanism<detail::MarkMemory>::end_phase(Phase phase) {
  marks().mark(phase, unit_);
  if (phase == Phase::Forward) marks().activations.end_forward(without_gathered());
}

}  // namespace ikebana
