#pragma once
#include <ikebana/checkpoint/keep_operators.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Replay KeepOperators::replay(const std::string& unit, CompareDraws& draws) const {
  return Replay(calls_, unit, draws);
}

}  // namespace ikebana::detail
