#pragma once
// Defines what Capture does with what cannot be recorded.

namespace ikebana {

/// The answer of a trainer to a step, or a unit, that cannot be recorded.
enum class OnRefusal {
  Throw,  ///< throws, and says what cannot be recorded, where, and what to write instead
  Eager   ///< runs it from then on as without Capture, and warns once
};

}  // namespace ikebana
