#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/run/unit_nodes.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void UnitNodes::begin(std::size_t unit, UnitActivations::Outer bytes) {
  running_.push_back({unit, at::sequence_number::peek(), bytes});
}

IKEBANA_INLINE std::optional<UnitNodes::Running> UnitNodes::end() {
  if (running_.empty()) return {};
  const Running last = running_.back();
  running_.pop_back();
  ended_.push_back({last.unit, last.first_node, at::sequence_number::peek()});
  return last;
}

IKEBANA_INLINE std::size_t UnitNodes::unit(Phase phase) const noexcept {
  if (phase == Phase::Forward) return running_.empty() ? 0 : running_.back().unit;
  const auto node = torch::autograd::get_current_node();
  if (phase != Phase::Backward || node == nullptr) return 0;
  for (const Ended& one : ended_)
    if (one.first <= node->sequence_nr() && node->sequence_nr() < one.end) return one.unit;
  return 0;
}

}  // namespace ikebana::detail
