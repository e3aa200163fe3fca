#pragma once
#include <ikebana/bridge/device.hpp>
#include <ikebana/observe/each_unit.hpp>
#include <utility>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::attach(c10::Device device,
                                                         const UnitTable& table) {
  if (values.warmup < 1)
    throw BadValue("Observe<EachUnit>: warmup is " + std::to_string(values.warmup) +
                   ". Write how many steps are not timed, 1 or more: the first one counts "
                   "operators.");
  modules_.emplace(table, /*by_module=*/device.is_cpu());
  clock_.emplace(bridge::with_index(device), modules_->size());
  counted_.resize(modules_->size());
  ranges_ = detail::unit_ranges(table);
  if (modules_->are_modules()) ends_with_model_ = modules_->size();
}

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::open_step() {
  if (made_ == 0) {
    for (std::size_t u = 0; u < counted_.size(); ++u) counted_[u] = modules_->part(u);
    operators_ = std::make_unique<detail::UnitOperators>(*clock_, counted_.size());
  }
  clock_->begin_step();
  is_open_ = true;
}

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::finish_step(const Report& report) {
  if (operators_ != nullptr && report.undone.value_or(0) > 0) return;
  if (operators_ != nullptr) {
    for (std::size_t u = 0; u < counted_.size(); ++u) {
      for (const auto direction : {Clock::Forward, Clock::Backward}) {
        const auto& cost = operators_->cost(clock_->part(u, direction));
        counted_[u].flops += cost.flops, counted_[u].bytes += cost.bytes;
        counted_[u].operators += cost.operators;
      }
      counted_[u].activations = operators_->activations(u);
    }
  }
  if (++made_ > values.warmup) clock_->end_step();
  else clock_->abort();
}

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::close() noexcept {
  is_open_ = false;
  operators_.reset();
  clock_->abort();
}

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::note_call(const Unit& unit, std::size_t outer) {
  UnitTimes& counted = counted_[unit.index];
  if (counted.calls++ == 0 && outer != unit.index) counted.outer = outer;
}

IKEBANA_INLINE UnitSummary Mechanism<Observe<EachUnit>>::summary() {
  UnitSummary summary;
  summary.steps = clock_->steps();
  double all = 0;
  for (Clock::Part part = 0; part < clock_->nothing(); ++part) all += clock_->seconds(part);
  for (std::size_t u = 0; u < counted_.size(); ++u) summary.units.push_back(of_unit(u, all));
  const auto steps = static_cast<double>(std::max<std::int64_t>(summary.steps, 1));
  for (UnitTimes& unit : summary.units) unit.forward /= steps, unit.backward /= steps;
  return summary;
}

IKEBANA_INLINE UnitTimes Mechanism<Observe<EachUnit>>::of_unit(std::size_t unit,
                                                               double seconds_of_all) const {
  UnitTimes times = counted_[unit];
  times.forward = clock_->seconds(clock_->part(unit, Clock::Forward));
  times.backward = clock_->seconds(clock_->part(unit, Clock::Backward));
  times.share = seconds_of_all > 0 ? times.seconds() / seconds_of_all : 0;
  return times;
}

IKEBANA_INLINE void Mechanism<Observe<EachUnit>>::reset() { clock_->reset(); }

}  // namespace ikebana
