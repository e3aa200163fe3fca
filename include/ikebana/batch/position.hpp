#pragma once
// Defines the position of a step's batch in the data.
#include <cstdint>

namespace ikebana {

/// The position of a step's batch, or of the first of several: `batch` other batches of epoch
/// `epoch` come before it. Both count from 0.
struct BatchPosition {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t batch = 0;  ///< number of the epoch's batches before it
  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

}  // namespace ikebana
